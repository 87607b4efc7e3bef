// One item in a task of Mechanical Turk, which puts the item of its CSV in place of the marks in #item.

const decoded = text => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text.trim()), one => one.charCodeAt(0))));
const survey = decoded(document.getElementById("survey").textContent);
const { item, digest } = decoded(document.getElementById("item").textContent);
const given = {};
const began = Date.now();
const holder = document.getElementById("task");
const field = document.getElementById("answers");
survey.digests = { [item.id]: digest };

function changed() {
  const seconds = (Date.now() - began) / 1000;
  field.value = JSON.stringify({ survey: survey.id, item: answersTo(survey, item, given, seconds) });
}

const view = itemView(survey, item, item.units.map(unit => unit.id), given, changed);
holder.append(element("h1", {}, survey.title), ...paragraphs(survey.consent),
  element("label", { class: "field" }, element("input", { type: "checkbox", required: true }), " I have read this and agree"),
  element("details", { open: true }, element("summary", {}, "How to judge"), ...paragraphs(survey.instructions)), view);
changed();

document.addEventListener("keydown", event => {
  if (/^[1-9]$/.test(event.key) && !isTyping(event.target)) answerByDigit(view, Number(event.key));
});
// Radio buttons in the task are required, so that the platform's own button waits for every answer.
for (const group of view.querySelectorAll("fieldset.question")) group.querySelector("input").required = true;
