// What a cell's last run showed, in the place of what the book shows there; a figure keeps its caption.

import { element } from "./dom.js";

const ABOVE = "A cell above, which this one needs, ended with an error:\n";

/** The output of a cell. */
export class Output {
  constructor(bar, book, title) {
    this.book = book;
    this.bar = bar;
    this.title = title;
    this.place = null;
  }

  /** Begin anew, or keep what is there. */
  begin(keep = false) {
    this.place ??= element("div", { className: "live-out", role: "group", "aria-label": `Output of ${this.title}` });
    if (!keep) this.place.replaceChildren();
    this.bar.after(this.place);
    this.book?.classList.add("live-old");
  }

  /** A run was stopped: what it showed stays. */
  end() {
    if (this.place && !this.place.childElementCount) this.restore();
  }

  /** Back to what the book shows. */
  restore() {
    this.place?.remove();
    this.book?.classList.remove("live-old");
  }

  /** Show one thing that the run sent. */
  show(shown) {
    const act = { text: this.#text, html: this.#html, figure: this.#figure, error: this.#error, clear: () => this.begin() };
    act[shown.kind].call(this, shown);
  }

  #text({ stream, text }) {
    const last = this.place.lastElementChild;
    if (last?.dataset.stream === stream) last.append(text);
    else this.#block(stream, text);
  }

  #block(stream, text) {
    const block = element("pre", { className: `live-text live-${stream}`, tabIndex: 0 }, text);
    block.dataset.stream = stream;
    this.place.append(block);
  }

  #html({ html }) {
    const holder = element("div", { className: "live-html" });
    holder.innerHTML = html; // the reader's own code made it
    this.place.append(holder);
  }

  #figure({ src, alt, width, height }) {
    this.place.append(element("img", { src, alt, width: Math.round(width), height: Math.round(height) }));
  }

  #error({ asked, text }) {
    this.#block("error", (asked ? "" : ABOVE) + text);
  }
}
