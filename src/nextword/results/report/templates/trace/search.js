// Search: every occurrence in the texts is underlined, Enter goes to the next.

class Search {
  constructor(box, count, page) {
    Object.assign(this, { box, count, page, hits: [], at: -1 });
    box.addEventListener("input", () => this.find());
    box.addEventListener("keydown", event => {
      if (event.key === "Enter" && this.hits.length) this.go(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        box.value = "";
        this.find();
        page.focus();
      }
      event.stopPropagation();
    });
  }

  find() {
    this.hits = this.page.texts().flatMap(text => text.find(this.box.value));
    this.at = -1;
    this.say();
  }

  go(step) {
    this.at = (this.at + step + this.hits.length + (this.at < 0 && step < 0 ? 1 : 0)) % this.hits.length;
    const { role, index } = this.hits[this.at];
    this.page.open(role, index);
    this.say();
  }

  say() {
    const of = this.at < 0 ? "" : `${this.at + 1} of `;
    this.count.textContent = this.box.value.trim() ? `${of}${this.hits.length ? whole(this.hits.length) : "none"}` : "";
  }
}
