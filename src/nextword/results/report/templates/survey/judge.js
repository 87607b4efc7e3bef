// The whole survey: who judges, one item after the other, progress that survives closing, one file at the end.

const survey = JSON.parse(document.getElementById("survey").textContent);
const items = new Map(survey.items.map(item => [item.id, item]));
const asked = new URLSearchParams(location.search);
const main = document.querySelector("main");
const fresh = () => ({ judge: asked.get("PROLIFIC_PID") ?? asked.get("judge") ?? "", consent: false, at: 0, items: {} });

let form = survey.forms.find(one => one.id === asked.get("form")) ?? null;
let state = fresh();
let since = 0;

const place = () => `nextword-survey/${survey.id}/${form.id}`;

function load() {
  try {
    state = { ...fresh(), ...JSON.parse(localStorage.getItem(place()) ?? "{}") };
  } catch {
    state = fresh();
  }
}

// False where the browser keeps nothing, for instance in a private window.
function keep() {
  try {
    localStorage.setItem(place(), JSON.stringify(state));
    return true;
  } catch {
    return false;
  }
}

function show(...parts) {
  main.replaceChildren(...parts.filter(part => part !== null));
  scrollTo(0, 0);
}

function start() {
  if (form) load();
  const chosen = element("select", { id: "form" }, ...survey.forms.map(one => element("option", { value: one.id }, one.id)));
  const name = element("input", { type: "text", id: "judge", value: state.judge, required: true, autocomplete: "off" });
  const agreed = element("input", { type: "checkbox", id: "consent", checked: state.consent });
  const complaint = element("p", { class: "complaint", role: "alert" });
  const begin = event => {
    event.preventDefault();
    if (!name.value.trim()) return void (complaint.textContent = "Please enter your name or number.");
    if (!agreed.checked) return void (complaint.textContent = "Please agree before you begin, or close this page.");
    if (!form) {
      form = survey.forms.find(one => one.id === chosen.value);
      load();
    }
    state.judge = name.value.trim();
    state.consent = true;
    keep();
    open(Math.min(state.at, form.pages.length));
  };
  show(
    element("h1", {}, survey.title),
    ...paragraphs(survey.consent),
    element("form", { id: "begin", onsubmit: begin, novalidate: true },
      form ? null : element("label", { class: "field" }, "Number of your form ", chosen),
      element("label", { class: "field" }, "Your name or number ", name),
      element("label", { class: "field" }, agreed, " I have read this and agree"),
      complaint,
      element("button", { class: "main", type: "submit" }, Object.keys(state.items).length ? "Continue" : "Begin")));
}

function leave() {
  if (state.at < form.pages.length && since) {
    const kept = state.items[form.pages[state.at].item];
    kept.seconds += (Date.now() - since) / 1000;
  }
  since = 0;
}

function open(at) {
  leave();
  state.at = at;
  const kept = keep();
  if (at === form.pages.length) return handBack();
  const page = form.pages[at];
  const mine = state.items[page.item] ??= { seconds: 0, units: {} };
  since = Date.now();
  const view = itemView(survey, items.get(page.item), page.order, mine.units, keep);
  const complaint = element("p", { class: "complaint", role: "alert" });
  const next = () => {
    const missing = missingIn(view);
    if (missing.length === 0) return open(at + 1);
    complaint.textContent = `${missing.length === 1 ? "One question has" : `${missing.length} questions have`} no answer yet.`;
    missing[0].querySelector("input").focus();
  };
  show(
    element("h1", {}, survey.title),
    element("p", { class: "soft", id: "progress" }, `${at + 1} of ${form.pages.length}`),
    element("progress", { max: form.pages.length, value: at, "aria-label": "Progress" }),
    kept ? null : element("p", { class: "complaint" }, "This browser does not keep your progress: do not close this page."),
    element("details", { open: at === 0 }, element("summary", {}, "How to judge"), ...paragraphs(survey.instructions),
      element("p", { class: "soft" }, "Keys: 1, 2, 3 … answer a question and go to the next; Enter continues.")),
    view,
    complaint,
    element("div", { class: "row" },
      element("button", { type: "button", id: "back", disabled: at === 0, onclick: () => open(at - 1) }, "Back"),
      element("button", { type: "button", id: "next", class: "main", onclick: next }, "Next")));
}

function answers() {
  return JSON.stringify({
    schema_version: survey.schema_version, kind: "survey-answers", survey: survey.id, form: form.id,
    judge: state.judge, consent: state.consent,
    items: form.pages.filter(page => state.items[page.item])
      .map(page => answersTo(survey, items.get(page.item), state.items[page.item].units, state.items[page.item].seconds)),
  }, null, 1);
}

function handBack() {
  const text = answers();
  const name = `answers-${form.id}-${state.judge.replace(/[^\w-]+/g, "_")}.json`;
  const save = () => {
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  show(
    element("h1", {}, "Thank you"),
    element("p", {}, "Save your answers as a file. ", survey.hand_back),
    element("div", { class: "row" },
      element("button", { type: "button", id: "back", onclick: () => open(form.pages.length - 1) }, "Back"),
      element("button", { type: "button", id: "save", class: "main", onclick: save }, "Save the file")),
    survey.completion_url ? element("p", {}, "Then: ", element("a", { id: "complete", href: survey.completion_url }, "finish")) : null,
    element("details", {}, element("summary", {}, "What the file holds"),
      element("textarea", { id: "answers", rows: 12, readonly: true, "aria-label": "Answers" }, text)));
}

document.addEventListener("keydown", event => {
  const view = main.querySelector(".item");
  if (!view || isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^[1-9]$/.test(event.key)) {
    event.preventDefault();
    answerByDigit(view, Number(event.key));
  } else if (event.key === "Enter" && !event.target.matches("button, summary, a")) {
    event.preventDefault();
    document.getElementById("next").click();
  }
});
addEventListener("pagehide", () => {
  if (form && since) {
    leave();
    keep();
  }
});

start();
