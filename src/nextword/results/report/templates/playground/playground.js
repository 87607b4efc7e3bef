// A prompt goes on: tokens arrive as events of the server, and each may be opened, changed and gone on from.

const $ = selector => document.querySelector(selector);
const state = { prompt: "", tokens: [], parts: [], stop: null, open: null };

const headers = () => {
  const key = $("#key")?.value;
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
};

async function ask(path, content, signal) {
  const answer = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(content), signal });
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  throw new Error(error?.message ?? `status ${answer.status}`);
}

// The data of each event, as JSON.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    held += value;
    const whole = held.split("\n\n");
    held = whole.pop();
    for (const event of whole) {
      const data = event.replace(/^data: /, "");
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

const say = text => { $("#status").textContent = text; };

// The part that most of a token's probability came from has the colour.
function hueOf({ shares }) {
  const names = Object.keys(shares);
  if (names.length < 2) return null;
  const strongest = names.reduce((best, name) => (shares[name] > shares[best] ? name : best));
  if (!state.parts.includes(strongest)) {
    state.parts.push(strongest);
    $("#legend").append(element("li", {}, element("i", { class: `h${(state.parts.length - 1) % 8}` }), strongest));
  }
  return `h${state.parts.indexOf(strongest) % 8}`;
}

function add(token) {
  const place = state.tokens.push(token) - 1;
  const probability = percent(Math.exp(token.log_prob ?? -Infinity));
  // A token can have no text of its own, such as part of a character: a dotted circle keeps it in sight and in reach.
  $("#text").append(element("button", {
    type: "button", class: hueOf(token), "aria-pressed": "false", "data-place": place,
    "data-empty": token.piece ? null : "",
    title: `${probability}, ${ordinal(token.rank)} choice`, onclick: () => open(place),
  }, token.piece || "\u200b"));
}

async function write(prompt) {
  close();
  state.stop?.abort();
  const stop = new AbortController();
  Object.assign(state, { prompt, tokens: [], parts: [], stop });
  $("#legend").replaceChildren();
  $("#text").replaceChildren(element("span", { class: "read" }, prompt));
  $("#stop").disabled = false;
  say("Writing …");
  const began = performance.now();
  try {
    const answer = await ask("/v1/completions", {
      prompt, stream: true, sources: true, max_tokens: Number($("#tokens").value),
      temperature: Number($("#temperature").value), top_p: Number($("#top_p").value),
    }, stop.signal);
    for await (const { choices, error } of events(answer)) {
      if (error) throw new Error(error.message);
      for (const { nextword } of choices) nextword?.tokens.forEach(add);
    }
    const seconds = (performance.now() - began) / 1000;
    say(`${counted(state.tokens.length, "token")} in ${seconds.toFixed(1)} s. Choose one to see where it came from.`);
  } catch (problem) {
    say(problem.name === "AbortError" ? `Stopped after ${counted(state.tokens.length, "token")}.` : problem.message);
  }
  if (state.stop === stop) $("#stop").disabled = true;
}

const written = (from, to) => state.tokens.slice(from, to).map(({ piece }) => piece).join("");

async function open(place) {
  state.open = place;
  for (const one of document.querySelectorAll("#text button")) {
    one.setAttribute("aria-pressed", String(Number(one.dataset.place) === place));
  }
  $("#chosen").textContent = state.tokens[place].piece;
  $("#instead").value = state.tokens[place].piece;
  $("#edit").hidden = false;
  try {
    const answer = await ask("/inspect", { prompt: state.prompt, ids: state.tokens.map(({ id }) => id) });
    const { page, first } = await answer.json();
    const frame = $("#inspected");
    frame.hidden = false;
    frame.src = `${page}#text-${first + place}`;
  } catch (problem) {
    say(problem.message);
  }
}

function close() {
  state.open = null;
  $("#edit").hidden = $("#inspected").hidden = true;
  document.querySelector('#text [aria-pressed="true"]')?.setAttribute("aria-pressed", "false");
}

$("#form").addEventListener("submit", event => {
  event.preventDefault();
  write($("#prompt").value);
});
$("#edit").addEventListener("submit", event => {
  event.preventDefault();
  const prompt = state.prompt + written(0, state.open) + $("#instead").value;
  $("#prompt").value = prompt;
  write(prompt);
});
$("#stop").addEventListener("click", () => state.stop?.abort());
$("#close").addEventListener("click", close);
