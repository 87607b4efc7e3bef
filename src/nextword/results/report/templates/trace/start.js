// The page: what is open, what it is coloured by, and which model is asked.

const $ = selector => document.querySelector(selector);
const state = { model: 0, measure: null, open: null };
const trace = () => traces[state.model];
const texts = new Map();

const page = {
  trace,
  texts: () => [...texts.values()],
  focus: (role = "text") => texts.get(role).box.focus({ preventScroll: true }),

  open(role, index, asPlace = false) {
    state.open = { role, index, asPlace };
    draw();
    const text = texts.get(role);
    text.box.closest("details")?.setAttribute("open", "");
    text.spans[index].scrollIntoView({ block: "nearest" });
  },

  close() {
    state.open = null;
    draw();
    page.focus();
  },

  step(by) {
    const { role, index } = state.open, next = index + by;
    if (texts.get(role).spans[next]) page.open(role, next);
  },
};

const panel = new Panel($("#panel"), page);

// The open token, its marks and the panel.
function draw() {
  const { open } = state;
  const isToken = open && open.role === "text" && isPredicted(open.index);
  const from = isToken ? placesOf(trace(), open.index) : [];
  const helped = open ? tokensHelped(trace(), open.role, open.index) : [];
  const marked = (isToken && !open.asPlace ? from : helped).map((place, k) => ({ ...place, order: k + 1 }));
  for (const [role, text] of texts) {
    text.open(open?.role === role ? open.index : null);
    text.mark(marked.filter(place => place.role === role));
    if (open?.role !== role) text.reveal();
  }
  document.body.classList.toggle("opened", Boolean(open));
  $("#status").textContent = isToken ? spoken(open.index) : "";
  if (open) panel.show(open, from, helped);
  else panel.clear();
}

// What a screen reader says of the open token.
function spoken(index) {
  const { log_prob, rank: ranks } = trace().tokens, at = index - first;
  const label = labelOf(trace(), textOf(trace(), "text").ids[index]);
  return `${label}: probability ${percent(Math.exp(log_prob[at]))}, ${ordinal(ranks[at])} choice`;
}

function colour() {
  const counts = texts.get("text").colour(trace(), state.measure);
  const all = state.measure.levels.map(({ name, label }) => element("li", {},
    element("i", { class: name }), element("span", {}, label),
    element("small", {}, counted(counts[name] ?? 0, "token"))));
  const key = element("ol", { class: "levels" }, ...all);
  key.style.setProperty("--hue", `var(--${state.measure.hue})`);
  $("#legend").replaceChildren(element("p", {}, state.measure.note), key);
}

function choices(box, name, options, chosen, pick) {
  const group = options.map(({ key, label }, place) => element("label", {},
    element("input", { type: "radio", name, value: key, checked: place === chosen, onchange: () => pick(place) }),
    element("span", {}, ...label)));
  box.append(...group);
}

function fill() {
  for (const [role, text] of texts) {
    const box = text.box.closest("details");
    if (box) box.hidden = !textOf(trace(), role);
    if (textOf(trace(), role)) text.fill(trace());
  }
  if (state.open && !texts.get(state.open.role).spans[state.open.index]) state.open = null;
}

function start() {
  for (const box of document.querySelectorAll(".tokens")) texts.set(box.dataset.role, new TokenText(box, box.dataset.role, page.open));
  const known = traces.flatMap(measuresOf);
  const measures = known.filter((one, place) => known.findIndex(({ key }) => key === one.key) === place);
  state.measure = measures[0];
  choices($("#measures"), "measure", measures.map(({ key, name }) => ({ key, label: [name] })), 0, place => {
    state.measure = measures[place];
    colour();
  });
  if ($("#models")) {
    const options = traces.map(({ model }, k) => ({ key: "AB"[k], label: [element("b", { class: `side ${"ab"[k]}` }, "AB"[k]), model.name] }));
    choices($("#models"), "model", options, 0, place => {
      state.model = place;
      fill();
      colour();
      draw();
    });
  }
  fill();
  colour();
  wire();
  // page.html#text-150 begins with that token open.
  const [, role, index] = /^#(text|source|auxiliary|store)-(\d+)$/.exec(location.hash) ?? [];
  if (texts.get(role)?.spans[index]) page.open(role, Number(index));
  // So that the first click need not wait for it.
  (window.requestIdleCallback ?? setTimeout)(() => traces.forEach(one => tokensHelped(one, "text", 0)));
}

function wire() {
  const search = $("#search"), dark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  new Search(search, $("#hits"), page);
  $("#theme").addEventListener("click", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });
  $("#differences")?.addEventListener("click", event => {
    const row = event.target.closest("[data-index]");
    if (row) page.open("text", Number(row.dataset.index));
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && event.target !== search) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && state.open) page.close();
  });
  const wide = matchMedia("(min-width: 900px)");
  const unfold = () => document.querySelectorAll(".beside details").forEach(box => { box.open = wide.matches; });
  wide.addEventListener("change", unfold);
  unfold();
  new ResizeObserver(([{ target }]) => root.style.setProperty("--bar", `${target.offsetHeight}px`)).observe($("#bar"));
}

start();
