// What this browser keeps for the book: the record of points, as exercises/engine/record.py writes it, and changed code.

const PREFIX = "transformer-block:";
const RECORD = "progress";
const VERSION = 1;
const COUNTS = ["attempts", "hints", "points"];

const instead = new Map(); // where the browser keeps nothing, it lasts as long as the page
let tell = () => {};
let told = false;
let seen = { version: VERSION, learner: "", exercises: {} }; // the record as far as this page has come to know it

/** Have `act` called, once, when something could not be kept. */
export function whenNothingIsKept(act) {
  tell = act;
}

function lost() {
  if (!told) tell();
  told = true;
}

function read(key) {
  if (instead.has(key)) return instead.get(key);
  try {
    return localStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

function write(key, text) {
  try {
    localStorage.setItem(PREFIX + key, text);
    instead.delete(key);
  } catch {
    instead.set(key, text);
    lost();
  }
}

function remove(key) {
  instead.delete(key);
  try {
    localStorage.removeItem(PREFIX + key);
  } catch {
    lost();
  }
}

function keys() {
  const found = new Set(instead.keys());
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) found.add(key.slice(PREFIX.length));
  } catch {
    lost();
  }
  return [...found];
}

/** A record of nothing done. */
export const fresh = () => ({ version: VERSION, learner: "", exercises: {} });

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const count = (value) => value === undefined || Number.isSafeInteger(value);

/** The record that a text holds; an Error says what is wrong with it. Anything beside the record is left out. */
export function parse(text) {
  let state;
  try {
    state = JSON.parse(text);
  } catch {
    throw new Error("it is no JSON");
  }
  if (!isObject(state) || state.version !== VERSION) throw new Error(`its version is not ${VERSION}`);
  const done = state.exercises;
  if (!isObject(done) || !Object.values(done).every((one) => isObject(one) && COUNTS.every((name) => count(one[name])))) {
    throw new Error("its exercises are damaged");
  }
  return { version: VERSION, learner: typeof state.learner === "string" ? state.learner : "", exercises: done };
}

/** What a record knows of one exercise. */
export function of(state, id) {
  const known = Object.hasOwn(state.exercises, id) ? state.exercises[id] : {};
  return Object.fromEntries(COUNTS.map((name) => [name, known[name] ?? 0]));
}

/** Two records in one: of every count the larger. */
export function merge(state, other) {
  const ids = [...new Set([...Object.keys(state.exercises), ...Object.keys(other.exercises)])].sort();
  const most = (id) => COUNTS.map((name) => [name, Math.max(of(state, id)[name], of(other, id)[name])]);
  const exercises = Object.fromEntries(ids.map((id) => [id, Object.fromEntries(most(id))]));
  return { version: VERSION, learner: state.learner || other.learner, exercises };
}

/** The record as it is now; a damaged one counts as none. */
export function record() {
  try {
    return parse(read(RECORD) ?? "");
  } catch {
    return fresh();
  }
}

/** Add a record to the kept one, which another tab may have changed since; `learner` is who is learning from now on. */
export function addRecord(other, learner = "") {
  seen = merge(merge(record(), other), seen);
  seen.learner = learner || seen.learner;
  write(RECORD, JSON.stringify(seen));
}

/** Another tab wrote: browsers let two tabs overwrite each other, so what this one knows and that one did not is added. */
function heal(text) {
  try {
    const theirs = parse(text);
    seen = merge(theirs, seen);
    if (JSON.stringify(seen.exercises) !== JSON.stringify(merge(theirs, theirs).exercises)) write(RECORD, JSON.stringify(seen));
  } catch {
    // damaged: the next run of a cell writes it anew
  }
}

/** What a reader made of a cell: { code, book }, with the book's code at that time; null if nothing. */
export function code(page, cell) {
  try {
    const kept = JSON.parse(read(`code:${page}:${cell}`) ?? "null");
    return typeof kept?.code === "string" && typeof kept.book === "string" ? kept : null;
  } catch {
    return null;
  }
}

/** Keep a cell's code; what is the book's own is not kept. */
export function keepCode(page, cell, text, book) {
  if (text === book) remove(`code:${page}:${cell}`);
  else write(`code:${page}:${cell}`, JSON.stringify({ code: text, book }));
}

/** All kept code, { page: { cell: { code, book } } }. */
export function allCode() {
  const found = {};
  for (const [kind, page, cell] of keys().map((key) => key.split(":"))) {
    if (kind !== "code") continue;
    const kept = code(page, cell);
    if (kept) (found[page] ??= {})[cell] = kept;
  }
  return found;
}

/** Forget everything. */
export function erase() {
  keys().forEach(remove);
  seen = fresh();
}

/** Have `act` called when another tab kept something. */
export function whenChanged(act) {
  addEventListener("storage", ({ key, newValue }) => {
    if (key === null || (key === PREFIX + RECORD && newValue === null)) seen = fresh(); // erased
    else if (key === PREFIX + RECORD) heal(newValue);
    if (key === null || key.startsWith(PREFIX)) act();
  });
}
