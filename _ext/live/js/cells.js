// A chapter's page, alive: buttons at its cells, marks at its exercises, progress. Entry of a bundle; all else comes when needed.

import { Cell } from "./cell.js";
import { element } from "./dom.js";
import { Python } from "./python.js";
import * as store from "./store.js";

const here = new URL("./", import.meta.url);

/** The cells of the page, and what they share. */
class Page {
  constructor({ page, cells }) {
    this.name = page;
    this.python = new Python();
    this.titles = cells.map((cell, at) => `${at + 1}`);
    this.cells = cells.map((cell, at) => {
      const box = cell.id && document.getElementById(cell.id);
      return box ? new Cell(this, at, cell, box) : { code: () => cell.source ?? "", mark() {}, model: cell.model };
    });
    this.checks = cells.filter((cell) => cell.exercise);
    this.editor = null;
  }

  /** What the worker has to know to run a cell. */
  request(cell, alt, hint) {
    const sources = this.cells.map((one) => (one.model ? "" : one.code()));
    return { sources, titles: this.titles, cell, alt, hint, record: JSON.stringify(store.record()) };
  }

  /** The editor's script, fetched once. */
  loadEditor() {
    this.editor ??= import(new URL("editor.js", here).href).catch((error) => {
      this.editor = null;
      throw error;
    });
    return this.editor;
  }

  /** Show at each exercise's title what was achieved. */
  markExercises() {
    const state = store.record();
    for (const { exercise, points, id } of this.checks) {
      const title = document.querySelector(`#ex-${CSS.escape(exercise)} > .admonition-title`);
      if (!title) continue;
      const known = store.of(state, exercise);
      const told = document.getElementById(id)?.querySelector(".cell_output"); // the book's: "Not attempted"
      told?.classList.toggle("live-tried", known.attempts > 0);
      const text = known.points ? `✓ ${known.points} of ${points} point${points === 1 ? "" : "s"}` : known.attempts ? "tried" : "";
      const mark = title.querySelector(".live-mark") ?? title.appendChild(element("span", { className: "live-mark" }));
      mark.textContent = text;
    }
  }

  /** After an import or an erasure: show everything as it is kept now. */
  refresh() {
    this.cells.forEach((cell) => cell.restore?.());
    this.markExercises();
  }
}

function addProgressButton(page) {
  const button = element("button", { type: "button", className: "live-progress-button", textContent: "Progress" });
  button.onclick = async () => {
    const { show } = await import(new URL("progress.js", here).href).catch(() => ({ show: sayThatItIsNotThere }));
    show({ store, name: page.name, book: new URL("../../", here), refresh: () => page.refresh(), rows: new URL("exercises.json", here) });
  };
  const bar = document.querySelector(".article-header-buttons");
  if (bar) bar.prepend(button);
  else document.body.append(button);
}

function sayThatItIsNotThere() {
  alert("Progress could not be loaded. Check the connection, then press Progress again.");
}

function sayThatNothingIsKept(page) {
  const text = "This browser keeps nothing for this page: your code and points last until you leave it. Export them under Progress.";
  const note = element("p", { className: "live-note", role: "status" });
  page.cells.find((cell) => cell.box).box.before(note);
  note.textContent = text; // set once it is there, so that it is read out
}

const data = document.getElementById("live-page");
if (data) {
  const page = new Page(JSON.parse(data.textContent));
  store.whenNothingIsKept(() => sayThatNothingIsKept(page));
  store.whenChanged(() => page.markExercises());
  page.markExercises();
  addProgressButton(page);
}
