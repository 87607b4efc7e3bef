// The most probable tokens at a position, as bars split by where their probability came from.

// The observed token is one of the rows, behind the others where it is not among them.
function candidateRows(trace, index) {
  const { tokens } = trace, at = index - first, names = componentsOf(trace);
  const observed = textOf(trace, "text").ids[index];
  const rows = tokens.candidates.ids[at].map((id, k) => ({
    id, place: k + 1, log: tokens.candidates.log_prob[at][k], isObserved: id === observed,
    shares: names.map(name => tokens.candidates.shares[name][at][k]),
  }));
  if (!rows.some(row => row.isObserved)) {
    rows.push({
      id: observed, place: tokens.rank[at], log: tokens.log_prob[at], isObserved: true, isBeyond: true,
      shares: names.map(name => tokens.shares[name][at]),
    });
  }
  return rows;
}

function bar(width, shares) {
  const parts = shares.length ? shares : [1];
  const made = element("span", { class: "bar", "aria-hidden": "true" });
  parts.forEach((share, place) => {
    if (share < 0.002) return;
    const part = element("i", { class: `s${place % 8}` });
    part.style.width = `${100 * width * share}%`;
    made.append(part);
  });
  return made;
}

function spokenShares(names, shares) {
  return names.length ? `; of it ${names.map((name, k) => `${percent(shares[k])} from ${name}`).join(", ")}` : "";
}

function candidateList(trace, index) {
  const names = componentsOf(trace), rows = candidateRows(trace, index);
  const longest = Math.max(...rows.map(row => Math.exp(row.log)));
  const items = rows.map(row => {
    const share = Math.exp(row.log), label = labelOf(trace, row.id);
    const spoken = `${ordinal(row.place)}: ${label}, probability ${percent(share)}${spokenShares(names, row.shares)}`;
    return element(
      "li", { class: [row.isObserved && "observed", row.isBeyond && "beyond"].filter(Boolean).join(" ") || null },
      element("span", { class: "spoken" }, spoken + (row.isObserved ? "; it stands here" : "")),
      element("span", { class: "place", "aria-hidden": "true" }, whole(row.place)),
      element("span", { class: "word", "aria-hidden": "true", title: label }, tokenName(label)),
      bar(share / longest, row.shares),
      element("span", { class: "number", "aria-hidden": "true" }, percent(share)),
    );
  });
  return element("ol", { class: "candidates" }, ...items);
}

function sourceKey(trace) {
  const names = componentsOf(trace);
  if (!names.length) return null;
  const keys = names.map((name, place) => element("li", {}, element("i", { class: `key s${place % 8}` }), name));
  return element("ul", { class: "sources", "aria-label": "Sources of probability" }, ...keys);
}
