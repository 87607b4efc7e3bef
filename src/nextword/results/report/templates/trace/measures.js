// What tokens can be coloured by: each measure sorts them into levels, from pale to strong, and says what these mean.

const below = (bounds, value) => bounds.filter(bound => value < bound).length;
const above = (bounds, value) => bounds.filter(bound => value > bound).length;
const levels = labels => labels.map((label, level) => ({ name: `l${level}`, label }));

const PROBABILITIES = [0.5, 0.1, 0.01, 0.001, 0.0001];
const RANKS = [1, 3, 10, 100, 1000];
const BITS = [1, 2, 4, 6, 8];
const SHARES = [0.05, 0.25, 0.5, 0.75, 0.95];
const FACTORS = [1.25, 2, 10];

const probability = {
  key: "probability", name: "Probability", hue: "m5",
  note: "The probability of this token. The stronger the colour, the higher its surprisal.",
  levels: levels(["50\u202f% or more", "10–50\u202f%", "1–10\u202f%", "0.1–1\u202f%", "0.01–\u200b0.1\u202f%", "below 0.01\u202f%"]),
  of: (trace, index) => `l${below(PROBABILITIES, Math.exp(trace.tokens.log_prob[index - first]))}`,
};

const rank = {
  key: "rank", name: "Rank", hue: "m5",
  note: "The token's rank in the vocabulary by probability. Pale: the model's first choice.",
  levels: levels(["1st", "2nd–3rd", "4th–10th", "11th–100th", "101st–1,000th", "beyond"]),
  of: (trace, index) => `l${above(RANKS, trace.tokens.rank[index - first])}`,
};

const uncertainty = {
  key: "entropy", name: "Uncertainty", hue: "m5",
  note: "Entropy: how unsure the model was before the token, whatever came. 3 bits: as unsure as between 8 equally likely tokens.",
  levels: levels(["under 1 bit", "1–2 bits", "2–4 bits", "4–6 bits", "6–8 bits", "over 8 bits"]),
  of: (trace, index) => `l${above(BITS, bits(trace.tokens.entropy[index - first]))}`,
};

const shareOf = (component, place, pointed) => ({
  key: `share ${component}`, name: `From ${component}`, hue: sourceHue(place),
  note: `How much of the token's probability came from ${component}` +
    (pointed ? `, which copies from positions in the ${pointed}.` : ", one of the components of the mixture."),
  levels: levels(["under 5\u202f%", "5–25\u202f%", "25–50\u202f%", "50–75\u202f%", "75–95\u202f%", "over 95\u202f%"]),
  of: (trace, index) => `l${above(SHARES, trace.tokens.shares[component]?.[index - first] ?? 0)}`,
});

const drafted = {
  key: "drafted", name: "Drafted", hue: "m2",
  note: "Speculative decoding. An accepted draft token needed no forward pass of its own.",
  levels: [
    { name: "l0", label: "not drafted" }, { name: "l2", label: "draft rejected" }, { name: "l5", label: "draft accepted" },
  ],
  of: (trace, index) => {
    const { accepted, refused } = draftAt(trace, index);
    return accepted ? "l5" : refused.length ? "l2" : "l0";
  },
};

const SIDES = { false: "a", true: "b" };
const difference = {
  key: "difference", name: "Difference", hue: "m0",
  note: "Which model gave the token more probability, and how many times as much. Blue: A. Orange: B. No colour: equal.",
  levels: [
    { name: "a3", label: "A ×10+" }, { name: "a2", label: "A ×2–10" }, { name: "a1", label: "A ×1.25–2" },
    { name: "l0", label: "alike" },
    { name: "b1", label: "B ×1.25–2" }, { name: "b2", label: "B ×2–10" }, { name: "b3", label: "B ×10+" },
  ],
  of: (trace, index) => {
    const nats = gain(index), level = above(FACTORS, Math.exp(Math.abs(nats)));
    return level ? `${SIDES[nats > 0]}${level}` : "l0";
  },
};

const sourceHue = place => `m${place % 8}`;

// Those that a trace can answer; with two models, their difference is the first.
function measuresOf(trace) {
  const shares = componentsOf(trace).map((name, place) => shareOf(name, place, trace.positions_in[name]));
  return [...(traces.length > 1 ? [difference] : []), probability, rank, uncertainty, ...shares, ...(trace.drafts.length ? [drafted] : [])];
}
