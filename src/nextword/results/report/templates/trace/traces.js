// What the models said, as it stands in the page: the record of docs/file-formats.md, read and never written.

const traces = JSON.parse(document.getElementById("traces").textContent);
// JSON has no infinity: the log of a probability of zero is null.
for (const { tokens } of traces) tokens.log_prob = tokens.log_prob.map(log => log ?? -Infinity);

const [{ first, tokens: { log_prob: { length: predicted } } }] = traces;
const isPredicted = index => index >= first && index < first + predicted;

// A distribution of one component has nothing to be split into.
const componentsOf = trace => {
  const names = Object.keys(trace.tokens.shares);
  return names.length > 1 ? names : [];
};

const textOf = (trace, role) => trace.texts[role];
const labelOf = (trace, id) => trace.vocabulary[id] ?? `<#${id}>`;

// By how many nats the second model's log-probability is higher.
function gain(index) {
  const [one, other] = traces.map(trace => trace.tokens.log_prob[index - first]);
  return one === other ? 0 : other - one;
}

// Where the probability of a token came from, strongest first: [{role, index, share, component}].
function placesOf(trace, index) {
  const found = [];
  for (const [component, { at, share }] of Object.entries(trace.tokens.positions)) {
    const role = trace.positions_in[component] ?? "text";
    at[index - first].forEach((place, k) => found.push({ role, index: place, share: share[index - first][k], component }));
  }
  return found.sort((a, b) => b.share - a.share);
}

// What was guessed where a token stands: {accepted: of how many guessed words it is one, refused: ids guessed in its place}.
const draftsAt = new WeakMap();
function draftAt(trace, index) {
  if (!draftsAt.has(trace)) {
    const byToken = new Map();
    for (const { begin, ids, accepted } of trace.drafts) {
      for (let k = 0; k < accepted; k++) byToken.set(begin + k, { accepted: ids.length, refused: [] });
      if (accepted < ids.length) byToken.set(begin + accepted, { accepted: 0, refused: ids.slice(accepted) });
    }
    draftsAt.set(trace, byToken);
  }
  return draftsAt.get(trace).get(index) ?? { accepted: 0, refused: [] };
}

// The other way round: the tokens whose probability came from a place, strongest first. Made when first asked for.
const helpedBy = new WeakMap();
function tokensHelped(trace, role, index) {
  if (!helpedBy.has(trace)) {
    const byPlace = new Map();
    for (let token = first; token < first + predicted; token++) {
      for (const place of placesOf(trace, token)) {
        const key = `${place.role} ${place.index}`;
        if (!byPlace.has(key)) byPlace.set(key, []);
        byPlace.get(key).push({ role: "text", index: token, share: place.share, component: place.component });
      }
    }
    for (const helped of byPlace.values()) helped.sort((a, b) => b.share - a.share);
    helpedBy.set(trace, byPlace);
  }
  return helpedBy.get(trace).get(`${role} ${index}`) ?? [];
}
