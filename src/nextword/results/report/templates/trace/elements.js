// Elements and numbers in words. Text of a trace goes into the page as text only, never as markup.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}

// A token by itself, whatever direction its script has.
const tokenName = label => element("bdi", { class: "token" }, label);

// The space in front of a word belongs to its token; colours and marks are drawn around the word alone.
const spaceBefore = piece => /^ +(?=[^ ])/.exec(piece)?.[0] ?? "";

const bits = nats => nats / Math.LN2;
const whole = number => Math.round(number).toLocaleString("en");
const digits = number => (number === Infinity ? "∞" : number >= 10 ? whole(number) : number.toFixed(1));

// 0.12 -> "12 %"; what is too small for a percentage to say anything: "1 in 40,000".
function percent(share) {
  if (share > 0 && share < 0.0001) {
    const others = 1 / share;
    return others < 1e9 ? `1 in ${whole(Number(others.toPrecision(2)))}` : "less than 1 in a billion";
  }
  const value = 100 * share;
  const decimals = value === 0 || value === 100 || (value >= 10 && value < 99.5) ? 0 : value >= 1 ? 1 : 2;
  return `${value.toFixed(decimals)}\u202f%`;
}

function ordinal(rank) {
  const ending = rank % 100 >= 11 && rank % 100 <= 13 ? "th" : ["th", "st", "nd", "rd"][rank % 10] ?? "th";
  return `${whole(rank)}${ending}`;
}

const counted = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
const times = nats => `${digits(Math.exp(Math.abs(nats)))} times`;
