// The block by hand as it stands: what is drawn, read from the model, and the matrices to choose entries from.
import { element, signed } from "./shared.js";
import { SHOWN, compared, each, inCase, run, shown, spelled, unfit } from "./block_by_hand_steps.js";

/** What the reader can change. */
export const VALUES = ["x", "weights", "overrides", "norm", "step", "entry", "case", "row", "guess", "shown"];

/** All that is drawn, read from the model: the step and its operands, the chosen entry, both runs. */
export function look(model) {
  const data = model.get("data");
  const now = Object.fromEntries(VALUES.map((name) => [name, model.get(name)]));
  const wrong = unfit(now, data);
  if (wrong) return { wrong };
  const options = { norm: now.norm, eps: data.eps, overrides: now.overrides };
  const base = run(data.steps, now.x, now.weights, options);
  const other = inCase(now.case, now, data.other);
  const changed = now.case && now.shown ? run(data.steps, other.x, other.weights, options) : undefined;
  const at = Math.max(0, data.steps.findIndex((step) => step.name === now.step));
  const step = data.steps[at];
  const operands = step.from.filter((name) => now.norm === "layernorm" || !name.endsWith(".b"));
  const [name, i, j] = now.entry;
  const there = name === step.name || (!changed && operands.includes(name));
  const known = there && base.values[name][i]?.[j] !== undefined;
  const entry = known ? { name, i, j } : { name: step.name, i: data.tokens.length - 1, j: 0 };
  return { ...now, data, options, base, changed, at, step, operands, entry };
}

/** An entry's name: "q,0,2". */
export const keyOf = ({ name, i, j }) => `${name},${i},${j}`;
/** A matrix's shape in words. */
export const shape = (matrix) => `[${matrix.length}, ${matrix[0].length}]`;

function isEdited({ x, weights, overrides, data }, { name, i, j }) {
  if (name === "x") return x[i][j] !== data.x[i][j];
  return weights[name] ? weights[name][i][j] !== data.weights[name][i][j] : keyOf({ name, i, j }) in overrides;
}

/** The names of the rows and of the columns of an array. */
export function headings(name, { data: { steps, sizes, tokens, features, labels }, step }) {
  const numbers = (size) => Array.from({ length: size }, (_, k) => k + 1);
  const featured = (axis) => (axis !== "F" && sizes[axis] === sizes.D ? features : numbers(sizes[axis]));
  const named = (axis) => (axis === "T" ? tokens : featured(axis));
  const axesOf = (wanted) => steps.find((it) => it.name === wanted)?.axes;
  if (axesOf(name)) return axesOf(name).map(named);
  return step.op === "norm" ? [[labels[name]], features] : [named(axesOf(step.from[0])[1]), named(step.axes[1])];
}

/** A matrix whose entries are chosen by pointer, touch or arrows; `text` and `bold` say how an entry looks. */
function grid(it, { key, name, values, caption, text = shown, bold = () => false }, acts) {
  const [rows, columns] = headings(name, it);
  const most = Math.max(...values.flat().filter(Number.isFinite).map(Math.abs));
  const chosen = it.entry.name === name ? keyOf(it.entry) : undefined;
  const cell = (value, i, j) => {
    const entry = { name, i, j };
    const edited = isEdited(it, entry);
    const node = element("td", {
      role: "gridcell", "data-at": `${i},${j}`, text: `${edited ? "✎ " : ""}${text(value)}`,
      tabindex: keyOf(entry) === (chosen ?? keyOf({ name, i: 0, j: 0 })) ? 0 : -1,
      "aria-selected": String(keyOf(entry) === chosen), onclick: () => acts.choose(entry),
      onpointerenter: () => acts.hover(entry), onkeydown: (event) => acts.key(event, entry),
    });
    node.className = "tb-block_by_hand-cell";
    node.classList.toggle("tb-block_by_hand-edited", edited);
    node.classList.toggle("tb-block_by_hand-different", bold(value, i, j));
    if (Number.isFinite(value) && Math.abs(value) >= SHOWN) node.style.background = signed(value, 3 * most);
    return node;
  };
  const head = element("tr", {}, element("td"), ...columns.map((word) => element("th", { scope: "col", text: word })));
  const body = each(values, cell).map((row, i) => element("tr", {}, element("th", { scope: "row", text: rows[i] }), ...row));
  const made = element("table", { role: "grid", "aria-label": caption, "data-key": key, onpointerleave: acts.leave },
    element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "tb-block_by_hand-matrix" },
    element("div", { class: "tb-block_by_hand-caption", text: caption }), element("div", { class: "tb-scroll" }, made));
}

/** The matrices of a step: what goes in and what comes out; or, for a case, before, after and the difference. */
export function matrices(it, acts) {
  const { step: { name }, base: { values }, changed, operands, data: { labels } } = it;
  const caption = (of, more = "") => `${labels[of]}${more} ${shape(values[of])}`;
  const plain = (of, key) => grid(it, { key, name: of, values: values[of], caption: caption(of) }, acts);
  if (!changed) return [...operands.map((of) => plain(of, of)), plain(name, "result")];
  const after = changed.values[name];
  const difference = each(after, (value, i, j) => (value === values[name][i][j] ? 0 : value - values[name][i][j]));
  const text = (value) => {
    const mark = compared(Math.abs(value));
    return mark === "≠" ? `≠ ${value > 0 ? "+" : ""}${shown(value)}` : mark;
  };
  const bold = (_, i, j) => Math.abs(difference[i][j]) >= SHOWN;
  return [
    { key: "result", values: values[name], caption: caption(name, ", as it is") },
    { key: "case", values: after, caption: caption(name, ", in the case"), bold },
    { key: "difference", values: difference, caption: caption(name, ", difference"), text, bold },
  ].map((matrix) => grid(it, { name, ...matrix }, acts));
}

/** The chosen entry spelled out: as it is, and in the case that is shown. */
export function arithmetic({ data, base, changed, entry: { name, i, j }, overrides, options }) {
  const step = data.steps.find((it) => it.name === name);
  if (!step) return ["A weight: nothing is computed."];
  const line = ({ values, computed }) => `${spelled(step, i, j, values, options)} = ${shown(computed[name][i][j])}`;
  const lines = changed ? [`As it is: ${line(base)}.`, `In the case: ${line(changed)}.`] : [`${line(base)}.`];
  return keyOf({ name, i, j }) in overrides ? [...lines, `You set it to ${shown(base.values[name][i][j])}.`] : lines;
}
