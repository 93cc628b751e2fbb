// One cell of the page: its buttons, its code as the reader has it, and what its last run showed.

import { element } from "./dom.js";
import { Output } from "./output.js";
import * as store from "./store.js";

const MODEL = "needs the real model: run this in Colab or your own Jupyter";
const CHANGED = "The book's code has changed since you edited this: Reset gives the new one.";
const NO_EDITOR = "The editor could not be loaded. Check the connection, then press Edit again.";
const HELP = "Ctrl+Enter runs. Tab indents; Escape, then Tab leaves the editor.";

/** A cell with its bar of buttons. */
export class Cell {
  #page;
  #at;
  #book; // the book's code
  #pre; // the book's highlighted block
  #own = null; // the reader's code where it is another
  #editor = null;

  constructor(page, at, data, box) {
    this.#page = page;
    this.#at = at;
    this.box = box;
    this.model = data.model;
    this.alt = data.alt ?? "";
    this.input = box.querySelector(".cell_input");
    this.#pre = this.input.querySelector("pre");
    this.#book = this.#pre.textContent.replace(/\n$/, "");
    this.exercise = data.exercise ?? "";
    this.#build(this.exercise ? "Check" : "Run");
    this.restore();
  }

  #build(verb) {
    const title = `cell ${this.#at + 1}`;
    const button = (text, act) => {
      const made = element("button", { type: "button" });
      made.onclick = act;
      this.#name(made, text);
      return made;
    };
    this.status = element("span", { className: "live-status", role: "status" });
    const name = element("span", { className: "live-name", textContent: title });
    const bar = element("div", { className: "live-bar" });
    if (this.model) {
      bar.append(name, element("span", { className: "live-status", textContent: MODEL }));
    } else {
      this.runButton = button(verb, () => this.run());
      this.editButton = button("Edit", () => this.edit());
      this.stopButton = button("Stop", () => this.#page.python.stop());
      this.resetButton = button("Reset", () => this.reset());
      this.stopButton.hidden = true;
      const hint = this.exercise ? button("Hint", () => this.run(this.exercise)) : "";
      bar.append(this.runButton, this.stopButton, hint, this.editButton, this.resetButton, name, this.status);
    }
    (this.input.closest("details") ?? this.input).after(bar);
    this.verb = verb;
    this.output = new Output(bar, this.box.querySelector(".cell_output"), title);
  }

  #name(button, text) {
    button.textContent = text;
    button.setAttribute("aria-label", `${text} cell ${this.#at + 1}`);
  }

  /** The code as it is now. */
  code() {
    return this.#own ?? this.#book;
  }

  /** Show the code that is kept, or the book's. */
  restore() {
    if (this.model) return;
    const kept = store.code(this.#page.name, this.box.id);
    this.#own = kept?.code ?? null;
    this.#editor?.set(this.code());
    this.#show();
    this.status.textContent = kept && kept.book !== this.#book ? CHANGED : "";
  }

  #show() {
    this.resetButton.hidden = this.#own === null;
    if (this.#editor) return;
    this.plain?.remove();
    this.plain = null;
    this.#pre.hidden = this.#own !== null;
    if (this.#own === null) return;
    const label = `Your code of cell ${this.#at + 1}`;
    this.plain = element("pre", { className: "live-plain", tabIndex: 0, role: "group", "aria-label": label }, this.#own);
    this.#pre.after(this.plain);
  }

  #keep(text) {
    this.#own = text === this.#book ? null : text;
    this.resetButton.hidden = this.#own === null;
    store.keepCode(this.#page.name, this.box.id, text, this.#book);
  }

  /** Open the editor in the place of the block. */
  async edit() {
    this.#page.python.start().catch(() => {}); // it takes seconds, and the reader will want it; Run says what is wrong
    try {
      const { open } = await this.#page.loadEditor();
      if (!this.#editor) this.#open(open);
      this.#editor.focus();
      if (this.status.textContent === NO_EDITOR) this.status.textContent = "";
    } catch {
      this.status.textContent = NO_EDITOR;
    }
  }

  #open(open) {
    const details = this.input.closest("details");
    if (details) details.open = true;
    const title = `cell ${this.#at + 1}`;
    const parent = element("div", { className: "live-editor" });
    const help = element("div", { className: "live-help", id: `${this.box.id}-help`, textContent: HELP });
    this.#pre.after(parent, help);
    this.#editor = open({
      parent,
      code: this.code(),
      label: `Code of ${title}`,
      help: help.id,
      changed: (text) => this.#keep(text),
      run: () => this.run(),
    });
    this.plain?.remove();
    this.#pre.hidden = true;
    this.editButton.hidden = true;
  }

  /** Give the book's code and output back. */
  reset() {
    this.#keep(this.#book);
    this.#editor?.set(this.#book);
    this.#show();
    this.output.restore();
    this.status.textContent = "The book's code is back.";
    this.runButton.focus(); // its own button is gone
  }

  /** Mark the line that an error names; none where it is null. */
  mark(line) {
    this.#editor?.mark(line);
  }

  /** Run this cell, and what it needs; or with an exercise's id, add its next hint to what is shown. */
  async run(hint = "") {
    if (this.running) return;
    const { python } = this.#page;
    let retry = false;
    this.#turn(true);
    try {
      this.status.textContent = python.started ? "Waiting…" : "Starting Python: 9 MB, once…";
      const answer = await python.run(() => this.#begin(hint));
      store.addRecord(answer.record, answer.record.learner);
      const seconds = (performance.now() - this.began) / 1000;
      this.status.textContent = answer.done ? `Done in ${seconds.toFixed(seconds < 1 ? 2 : 1)} s` : "Ended with an error";
    } catch (error) {
      this.output.end();
      this.status.textContent = error.message;
      retry = error.retry;
    }
    this.#turn(false, retry);
    this.box.dataset.runs = Number(this.box.dataset.runs ?? 0) + 1;
    this.#page.markExercises();
  }

  #turn(running, retry = false) {
    this.running = running;
    this.stopButton.hidden = !running;
    this.#name(this.runButton, retry ? "Retry" : this.verb);
    this.runButton.setAttribute("aria-disabled", running);
    this.box.classList.toggle("live-running", running);
  }

  #begin(hint) {
    const { python, cells } = this.#page;
    this.began = performance.now();
    this.status.textContent = "Running…";
    this.output.begin(Boolean(hint));
    if (!hint) cells.forEach((cell) => cell.mark(null));
    python.status = (text) => {
      this.status.textContent = text;
    };
    python.listen = (shown) => this.#hear(shown);
    return this.#page.request(this.#at, this.#own === null ? this.alt : "", hint);
  }

  #hear(shown) {
    if (shown.kind === "step") {
      this.status.textContent = shown.asked ? "Running…" : `Running cell ${shown.cell + 1}, which this one needs…`;
    } else {
      if (shown.kind === "error") this.#page.cells[Number(shown.cell) - 1]?.mark(shown.line);
      this.output.show(shown);
    }
  }
}
