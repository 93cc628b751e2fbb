// The dialog of points: by chapter; taken along as one file, brought in from one, erased. Entry of a bundle.

import { element } from "./dom.js";

const NAME = "transformer-block-progress.json"; // Jupyter's `import_progress` reads it, too
const WHERE =
  "Points and code are kept in this browser alone. Export writes both to a file, which Import reads in another browser, and import_progress in Jupyter.";

let dialog = null;

/** Open the dialog. */
export async function show({ store, book, rows, refresh }) {
  dialog ??= document.body.appendChild(element("dialog", { className: "live-progress", "aria-labelledby": "live-progress-title" }));
  const listed = await fetch(rows).then((answer) => answer.json()).catch(() => []);
  fill({ store, book, refresh, listed });
  if (!dialog.open) dialog.showModal();
}

function fill(all, said = "") {
  const { store, listed } = all;
  const state = store.record();
  const status = element("p", { className: "live-status", role: "status" });
  const button = (text, act) => Object.assign(element("button", { type: "button", textContent: text }), { onclick: act });
  const file = element("input", { type: "file", accept: ".json,application/json", hidden: true, "aria-label": "Progress file" });
  file.onchange = () => bringIn(all, file.files[0]);
  dialog.replaceChildren(
    element("h2", { id: "live-progress-title", textContent: heading(state, listed, store) }),
    table(all, state),
    element("p", { textContent: WHERE }),
    status,
    element("div", { className: "live-bar" },
      button("Export", () => takeAlong(store)), button("Import", () => file.click()), file,
      button("Erase", () => ask(all, status)), button("Close", () => dialog.close())),
  );
  status.textContent = said;
  if (said) dialog.querySelector(".live-bar button:last-child").focus(); // what was pressed is gone
}

function heading(state, listed, store) {
  const sum = (rows) => rows.reduce((all, row) => all + row, 0);
  const got = sum(listed.map(({ id }) => store.of(state, id).points));
  return `Progress: ${got} of ${sum(listed.map(({ points }) => points))} points`;
}

function table({ store, listed, book }, state) {
  const lines = [...group(listed)].map(([chapter, rows]) => {
    const got = rows.reduce((all, { id }) => all + store.of(state, id).points, 0);
    const tried = rows.filter(({ id }) => store.of(state, id).attempts).length;
    const link = element("a", { href: new URL(`chapters/${chapter}.html`, book).href, textContent: rows[0].of });
    return element("tr", {},
      element("th", { scope: "row" }, link),
      element("td", {}, `${got} of ${rows.reduce((all, { points }) => all + points, 0)}`),
      element("td", {}, `${tried} of ${rows.length}`));
  });
  const head = ["Chapter", "Points", "Tried"].map((text) => element("th", { scope: "col", textContent: text }));
  const made = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines));
  return element("div", { className: "live-table", tabIndex: 0, role: "group", "aria-label": "Points by chapter" }, made);
}

function group(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.chapter, [...(found.get(row.chapter) ?? []), row]);
  return found;
}

function takeAlong(store) {
  const text = JSON.stringify({ ...store.record(), code: store.allCode() }, null, 1);
  const href = URL.createObjectURL(new Blob([`${text}\n`], { type: "application/json" }));
  element("a", { href, download: NAME }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

async function bringIn(all, file) {
  const { store } = all;
  try {
    const text = await file.text();
    store.addRecord(store.parse(text));
    const left = addCode(store, JSON.parse(text).code);
    all.refresh();
    const rest = left ? ` Your own code of ${left} cell${left === 1 ? "" : "s"} was left as it is.` : "";
    fill(all, `Imported ${file.name}: of every count the larger is kept.${rest}`);
  } catch (error) {
    fill(all, `Nothing was imported from ${file.name}: ${error.message}. Choose a file that Export or export_progress wrote.`);
  }
}

/** Add code where there is none yet; returns how many cells kept another of their own. */
function addCode(store, pages) {
  let left = 0;
  for (const [page, cells] of Object.entries(pages ?? {})) {
    for (const [cell, kept] of Object.entries(cells ?? {})) {
      if (typeof kept?.code !== "string" || typeof kept.book !== "string") continue;
      const own = store.code(page, cell);
      if (own) left += own.code !== kept.code;
      else store.keepCode(page, cell, kept.code, kept.book);
    }
  }
  return left;
}

function ask(all, status) {
  const yes = element("button", { type: "button", textContent: "Erase everything" });
  const no = element("button", { type: "button", textContent: "Keep it" });
  yes.onclick = () => {
    all.store.erase();
    all.refresh();
    fill(all, "Erased.");
  };
  no.onclick = () => fill(all, "Nothing was erased.");
  status.replaceChildren("This forgets your points and your code, in this browser, for good. ", yes, " ", no);
  no.focus();
}
