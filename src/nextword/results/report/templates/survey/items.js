// One item of a survey: what is read, what is judged. Text goes into the page as text only, never as markup.

const paragraphs = text => text.split(/\n\s*\n/).map(one => element("p", {}, one));

function passageView(passage, heading) {
  const lines = passage.lines.map((line, at) => element("p", { class: "line", "data-line": at, dir: "auto" }, line));
  return element("section", { class: "read" }, passage.title ? element(heading, {}, passage.title) : null, ...lines);
}

// Stretches of the text between white space, with their places counted in characters.
function wordsOf(text) {
  const size = until => [...text.slice(0, until)].length;
  return [...text.matchAll(/\S+/g)].map(found => ({
    text: found[0], start: size(found.index), end: size(found.index + found[0].length),
  }));
}

// Words that stand beside each other become one stretch.
function joined(words, marked) {
  const found = [];
  words.forEach((word, at) => {
    if (!marked.has(at)) return;
    if (marked.has(at - 1)) found[found.length - 1][1] = word.end;
    else found.push([word.start, word.end]);
  });
  return found;
}

function markingView(survey, unit, said, changed) {
  const { lines } = unit.texts[unit.texts.length - 1];
  const words = wordsOf(lines.join("\n"));
  const marked = new Set(words.map((_, at) => at)
    .filter(at => said.marks.some(([start, end]) => words[at].start >= start && words[at].end <= end)));
  const buttons = words.map((word, at) => {
    const press = event => {
      if (!marked.delete(at)) marked.add(at);
      event.currentTarget.setAttribute("aria-pressed", marked.has(at));
      said.marks = joined(words, marked);
      changed();
    };
    return element("button", { type: "button", "aria-pressed": marked.has(at) ? "true" : "false", onclick: press }, word.text);
  });
  const shown = element("div", { class: "marking", role: "group", "aria-label": survey.marking.text });
  shown.append(element("p", { class: "soft" }, survey.marking.text));
  for (const button of buttons) shown.append(button, " ");
  return shown;
}

function questionView(item, unit, question, said, answered) {
  const name = `${item.id}-${unit.id}-${question.name}`;
  const choices = question.choices.map(choice => {
    const box = element("input", {
      type: "radio", name, value: choice.value, checked: said.answers[question.name] === choice.value,
      onchange: () => answered(choice.value),
    });
    return element("label", {}, box, " ", choice.label);
  });
  return element("fieldset", { "data-question": name, class: "question" },
    element("legend", {}, question.text), element("div", { class: "choices" }, ...choices));
}

function unitView(survey, item, unit, said, changed) {
  const holder = element("div");
  const showMarking = () => {
    const { marking } = survey;
    if (!marking) return;
    const wanted = said.answers[marking.question] === marking.value;
    if (!wanted) said.marks = [];
    holder.replaceChildren(...(wanted ? [markingView(survey, unit, said, changed)] : []));
  };
  const questions = survey.questions.map(question => questionView(item, unit, question, said, value => {
    said.answers[question.name] = value;
    view.querySelector(`[data-question="${item.id}-${unit.id}-${question.name}"]`).classList.remove("missing");
    showMarking();
    changed();
  }));
  const texts = element("div", { class: "texts" }, ...unit.texts.map(text => passageView(text, "h3")));
  const view = element("section", { class: "unit", "data-unit": unit.id }, texts, ...questions, holder);
  showMarking();
  return view;
}

// The whole item. `given` is filled: unit id -> { answers, marks }.
function itemView(survey, item, order, given, changed) {
  const passages = element("div", { class: "passages" }, ...item.passages.map(one => passageView(one, "h2")));
  const judged = element("div", { class: "judged" });
  let group = null, number = 0;
  for (const id of order) {
    const unit = item.units.find(one => one.id === id);
    if (survey.group_title && unit.group !== group) {
      group = unit.group;
      number += 1;
      judged.append(element("h2", {}, `${survey.group_title} ${number}`));
    }
    given[id] ??= { answers: {}, marks: [] };
    const view = unitView(survey, item, unit, given[id], changed);
    const open = () => {
      for (const other of judged.querySelectorAll(".unit")) other.classList.toggle("open", other === view);
      const lines = passages.querySelector(".read")?.querySelectorAll(".line") ?? [];
      lines.forEach((line, at) => line.classList.toggle("near", unit.near.length < lines.length && unit.near.includes(at)));
    };
    view.addEventListener("focusin", open);
    view.addEventListener("pointerenter", open);
    judged.append(view);
  }
  const beside = item.units.some(unit => unit.near.length > 0);
  return element("div", { class: beside ? "item beside" : "item" }, passages, judged);
}

// Questions without an answer, in the order shown; they are marked.
function missingIn(view) {
  const missing = [...view.querySelectorAll("fieldset.question")].filter(one => !one.querySelector(":checked"));
  for (const one of view.querySelectorAll("fieldset.question")) one.classList.toggle("missing", missing.includes(one));
  return missing;
}

// A digit answers the question that has the focus, else the first without an answer, and moves on to the next.
function answerByDigit(view, digit) {
  const questions = [...view.querySelectorAll("fieldset.question")];
  const focused = document.activeElement?.closest?.("fieldset.question");
  const asked = focused ?? questions.find(one => !one.querySelector(":checked"));
  const box = asked?.querySelectorAll("input")[digit - 1];
  if (!box) return;
  box.click();
  const next = questions[questions.indexOf(asked) + 1];
  (next?.querySelector(":checked") ?? next?.querySelector("input") ?? box).focus();
}

const isTyping = target => target.matches?.("input[type=text], textarea, select");

// What is handed back about one item.
const answersTo = (survey, item, given, seconds) => ({
  id: item.id,
  digest: survey.digests[item.id],
  seconds: Math.round(10 * seconds) / 10,
  units: item.units.filter(unit => Object.keys(given[unit.id]?.answers ?? {}).length)
    .map(unit => ({ id: unit.id, answers: given[unit.id].answers, marks: given[unit.id].marks })),
});
