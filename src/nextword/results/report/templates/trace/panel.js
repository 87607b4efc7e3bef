// The panel of the open token: what was predicted there, and as a place, whom it helped.

const AROUND = 4;
const SHOWN = 12;

class Panel {
  // page: {trace(), open(role, index, asPlace), close(), step(by)}
  constructor(box, page) {
    Object.assign(this, { box, page });
    this.hint = [...box.childNodes];
  }

  clear() {
    this.box.classList.remove("open");
    this.box.replaceChildren(...this.hint);
  }

  show({ role, index, asPlace }, from, helped) {
    const trace = this.page.trace(), text = textOf(trace, role);
    const isToken = role === "text" && isPredicted(index);
    const views = isToken && helped.length ? this.views({ role, index, asPlace }, helped.length) : null;
    const focused = this.box.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") ?? "" : null;
    const body = asPlace || !isToken ? this.place(role, isToken, helped) : this.prediction(trace, index, from);
    this.box.classList.add("open");
    this.box.replaceChildren(
      element("div", { class: "head" },
        element("h2", {}, tokenName(labelOf(trace, text.ids[index]))),
        element("p", { class: "soft" }, `token ${whole(index + 1)} of ${whole(text.ids.length)}${role === "text" ? "" : `, ${role}`}`),
        element("div", { class: "steps" },
          this.button("‹", "previous token", () => this.page.step(-1)),
          this.button("›", "next token", () => this.page.step(1)),
          this.button("×", "close", () => this.page.close())),
      ),
      ...(views ? [views] : []),
      ...body.filter(Boolean),
    );
    this.box.scrollTop = 0;
    // Whoever pressed a button that is drawn anew stays on it; whoever followed a place goes on in the text.
    if (focused !== null) (focused && this.box.querySelector(`[aria-label="${focused}"]`) || { focus: () => this.page.focus(role) }).focus();
  }

  button(sign, name, action) {
    return element("button", { type: "button", "aria-label": name, title: name, onclick: action }, sign);
  }

  views({ role, index, asPlace }, helped) {
    const tab = (name, chosen, place) => element(
      "button", { type: "button", "aria-pressed": String(chosen), onclick: () => this.page.open(role, index, place) }, name);
    return element("div", { class: "views", role: "group", "aria-label": "What to show of the token" },
      tab("Predicted here", !asPlace, false), tab(`Helped ${counted(helped, "token")}`, Boolean(asPlace), true));
  }

  prediction(trace, index, from) {
    const { log_prob, rank: ranks, entropy } = trace.tokens, at = index - first;
    const choices = Math.exp(entropy[at]);
    return [
      traces.length > 1 ? this.models(index) : element("p", { class: "verdict" },
        "The model gave it a probability of ", element("b", {}, percent(Math.exp(log_prob[at]))), ": its ",
        element("b", {}, ranks[at] === 1 ? "first" : ordinal(ranks[at])), ` choice, ${digits(bits(-log_prob[at]))} bits of surprisal.`),
      element("p", { class: "soft" },
        `Before it, ${traces.length > 1 ? trace.model.name : "the model"} was as unsure as between ${digits(choices)} equally likely tokens (${digits(bits(entropy[at]))} bits).`),
      this.guess(trace, index),
      element("h3", {}, `Its most probable tokens${traces.length > 1 ? `, by ${trace.model.name}` : ""}`),
      sourceKey(trace),
      candidateList(trace, index),
      ...(from.length ? [
        element("h3", {}, "Where its probability came from"),
        this.list(from, "place", true),
        this.rest(1 - from.reduce((sum, { share }) => sum + share, 0)),
      ] : []),
    ];
  }

  guess(trace, index) {
    const { accepted, refused } = draftAt(trace, index);
    if (accepted) return element("p", { class: "soft" }, accepted === 1 ? "Its draft was accepted." : `Its draft of ${accepted} tokens was accepted.`);
    const words = refused.flatMap(id => [tokenName(labelOf(trace, id)), " "]);
    return words.length ? element("p", { class: "soft" }, "Draft tokens rejected here: ", element("s", {}, ...words)) : null;
  }

  rest(share) {
    return share < 0.005 ? null
      : element("p", { class: "soft" }, `The other ${percent(share)} came from no position in the text, or from weaker ones.`);
  }

  models(index) {
    const nats = gain(index), at = index - first;
    const rows = traces.map((trace, k) => element("tr", {},
      element("th", { scope: "row" }, element("span", { class: `side ${"ab"[k]}` }, "AB"[k]), trace.model.name),
      element("td", {}, percent(Math.exp(trace.tokens.log_prob[at]))),
      element("td", {}, ordinal(trace.tokens.rank[at]))));
    const verdict = Math.abs(nats) < Math.log(1.05) ? "Both give it much the same probability."
      : `${nats > 0 ? "B" : "A"} gives it ${times(nats)} the probability, ${digits(Math.abs(nats))} nats or ${digits(Math.abs(bits(nats)))} bits more.`;
    return element("div", {},
      element("table", { class: "models" },
        element("thead", {}, element("tr", {}, element("td"), element("th", { scope: "col" }, "probability"), element("th", { scope: "col" }, "choice"))),
        element("tbody", {}, ...rows)),
      element("p", { class: "verdict" }, verdict));
  }

  place(role, isToken, helped) {
    const title = element("h3", {}, helped.length ? "Tokens whose probability came from here" : "Nothing came from here");
    const read = isToken ? null : element("p", { class: "soft" },
      role === "text" ? "This token is context; nothing was predicted here." : `The model read this token in the ${role}.`);
    if (!helped.length) return [read, element("p", { class: "soft" }, "No token has it among its strongest positions.")];
    return [read, title, this.list(helped, "token", false)];
  }

  // Places, or tokens that a place helped: each in its context, with the share of probability.
  list(found, noun, asPlace) {
    const trace = this.page.trace(), several = Object.keys(trace.tokens.positions).length > 1;
    const item = ({ role, index, share, component }, k) => {
      const { pieces, ids } = textOf(trace, role);
      const around = (start, end) => pieces.slice(Math.max(start, 0), end).join("").replace(/\s+/g, " ");
      const width = element("i", { class: "s0" });
      width.style.width = `${100 * Math.min(share, 1)}%`;
      return element("li", {}, element(
        "button", { type: "button", onclick: () => this.page.open(role, index, asPlace) },
        element("span", { class: "place", "aria-hidden": "true" }, whole(k + 1)),
        element("span", { class: "context" }, around(index - AROUND, index),
          spaceBefore(pieces[index]), element("mark", {}, pieces[index].trim() || labelOf(trace, ids[index])),
          around(index + 1, index + 1 + AROUND)),
        element("span", { class: "number" }, percent(share),
          element("small", {}, [several ? component : null, role === "text" ? null : role].filter(Boolean).join(", "))),
        element("span", { class: "bar", "aria-hidden": "true" }, width)));
    };
    const list = element("ol", { class: "found" }, ...found.slice(0, SHOWN).map(item));
    if (found.length <= SHOWN) return list;
    const more = element("button", { type: "button", class: "more", onclick: () => {
      list.append(...found.slice(SHOWN).map((one, k) => item(one, k + SHOWN)));
      more.remove();
    } }, `${counted(found.length - SHOWN, noun)} more`);
    return element("div", {}, list, more);
  }
}
