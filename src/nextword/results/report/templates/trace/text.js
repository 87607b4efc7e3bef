// A text as its tokens: one span each, coloured by level, with the open token and its places marked.

const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };

class TokenText {
  // choose(role, index) is called when the reader picks a token.
  constructor(box, role, choose) {
    Object.assign(this, { box, role, choose, spans: [], levels: [], current: null, marked: [] });
    box.addEventListener("click", event => {
      const span = event.target.closest("[data-at]");
      if (span) choose(role, Number(span.dataset.at));
    });
    box.addEventListener("keydown", event => this.onKey(event));
  }

  fill(trace) {
    const { ids, pieces } = textOf(trace, this.role);
    // Another model mostly reads the same text, which is left as it stands.
    if (this.pieces?.join("\0") === pieces.join("\0")) return;
    const fragment = document.createDocumentFragment();
    this.pieces = pieces;
    this.spans = pieces.map((piece, index) => {
      const span = document.createElement("span");
      span.id = `${this.role}-${index}`;
      span.dataset.at = index;
      span.setAttribute("role", "option");
      const space = spaceBefore(piece);
      span.textContent = piece.slice(space.length);
      // What adds nothing to be seen is shown by its name: a special token, a later byte of a character, a line end.
      if (!piece) span.dataset.name = labelOf(trace, ids[index]);
      else if (piece.includes("\n")) span.dataset.name = "↵";
      fragment.append(space, span);
      return span;
    });
    this.levels = [];
    this.box.replaceChildren(fragment);
  }

  colour(trace, measure) {
    this.box.style.setProperty("--hue", `var(--${measure.hue})`);
    const counts = {};
    this.spans.forEach((span, index) => {
      const level = isPredicted(index) ? measure.of(trace, index) : "read";
      counts[level] = (counts[level] ?? 0) + 1;
      if (this.levels[index] === level) return;
      span.classList.remove(this.levels[index]);
      span.classList.add(level);
      this.levels[index] = level;
    });
    return counts;
  }

  open(index) {
    const before = this.spans[this.current], now = this.spans[index];
    before?.removeAttribute("aria-selected");
    this.current = index;
    now?.setAttribute("aria-selected", "true");
    if (now) this.box.setAttribute("aria-activedescendant", now.id);
    else this.box.removeAttribute("aria-activedescendant");
  }

  // Numbers the strongest places; the stronger, the fuller the mark.
  mark(places) {
    for (const index of this.marked) {
      const span = this.spans[index];
      span?.classList.remove("mark1", "mark2", "mark3");
      span?.removeAttribute("data-order");
    }
    this.marked = [];
    places.forEach(({ index, share, order }) => {
      const span = this.spans[index];
      if (!span || span.dataset.order) return;
      span.classList.add(share > 0.25 ? "mark3" : share > 0.05 ? "mark2" : "mark1");
      if (order <= 9) span.dataset.order = order;
      this.marked.push(index);
    });
  }

  // Moves a text that scrolls by itself, beside the other, so that its strongest mark is seen; the page stays.
  reveal() {
    const span = this.spans[this.marked[0]], scroller = this.box.closest(".beside");
    if (!span || !scroller) return;
    const seen = scroller.getBoundingClientRect(), mark = span.getBoundingClientRect();
    const top = Math.max(seen.top, 0), bottom = Math.min(seen.bottom, innerHeight);
    if (mark.top < top || mark.bottom > bottom) scroller.scrollTop += mark.top - top - (bottom - top) / 3;
  }

  find(words) {
    const wanted = words.toLowerCase(), lower = this.pieces.map(piece => piece.toLowerCase());
    const text = lower.join(""), hits = [];
    const starts = [];
    lower.reduce((start, piece) => (starts.push(start), start + piece.length), 0);
    this.spans.forEach(span => span.classList.remove("match"));
    if (!wanted.trim()) return hits;
    for (let from = text.indexOf(wanted), token = 0; from >= 0; from = text.indexOf(wanted, from + wanted.length)) {
      while (starts[token] + lower[token].length <= from) token++;
      // The space in front of a word is part of its token.
      const begin = token;
      for (let at = begin; at < starts.length && starts[at] < from + wanted.length; at++) this.spans[at].classList.add("match");
      hits.push({ role: this.role, index: begin });
    }
    return hits;
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const at = this.current ?? (this.role === "text" ? first - 1 : -1);
    let next = null;
    if (event.key === "Enter" || event.key === " ") next = Math.max(this.current ?? first, 0);
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = this.spans.length - 1;
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") next = this.lineBeyond(at, STEPS[event.key]);
    else if (event.key in STEPS) next = at + STEPS[event.key];
    if (next === null) return;
    event.preventDefault();
    if (this.spans[next]) this.choose(this.role, next);
  }

  // The token nearest above or below.
  lineBeyond(at, step) {
    if (!this.spans[at]) return at + step;
    const here = this.spans[at].getBoundingClientRect(), middle = here.left + here.width / 2;
    let best = null, bestLine = null, bestDistance = Infinity;
    for (let index = at + step; this.spans[index]; index += step) {
      const box = this.spans[index].getClientRects()[0];
      if (!box || Math.abs(box.top - here.top) < here.height / 2) continue;
      bestLine ??= box.top;
      if (Math.abs(box.top - bestLine) > box.height / 2) break;
      const distance = Math.abs(box.left + box.width / 2 - middle);
      if (distance < bestDistance) [best, bestDistance] = [index, distance];
    }
    return best;
  }
}
