// The block by hand as a picture: steps, cases, one entry spelled out. Its matrices are in block_by_hand_look.js, and what
// they show in block_by_hand_steps.js.
import { button, choice, element, inWords, numberField, room, stepped, table, toggle, watch } from "./shared.js";
import { VALUES, arithmetic, headings, keyOf, look, matrices, shape } from "./block_by_hand_look.js";
import { USED, change, compared, differences, each, list, seen, shown, verdict } from "./block_by_hand_steps.js";

const CASES = [
  ["", "As it is"], ["times ten", "A row × 10"], ["last token", "Only the last token changed"],
  ["no attention", "Attention removed"],
];
const MARKS = { "=": "the same", "≈": "the same in three decimals", "≠": "different" };
const NUDGE = 0.1;
const HELP = "Choose a number by pointer or arrows, then type. In the field, ↑ and ↓ nudge it by 0.1, with Shift by 1. "
  + "All that follows is computed with your number.";

/** What the reader can do; each change is one sentence for `say`. `history` holds what can be undone. */
function actions(model, say, history) {
  const set = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  };
  const keep = (key = {}) => { // one entry that is typed or nudged is undone at once
    const values = Object.fromEntries(["x", "weights", "overrides"].map((name) => [name, model.get(name)]));
    if (history.at(-1)?.key !== key) history.push({ key, values });
  };
  /** Change numbers, and say what that does to y. */
  const edit = (words, key, values) => {
    const before = look(model);
    keep(key);
    set(values);
    const after = look(model);
    say(`${words} ${change(before.data.steps.at(-1), before.base.values, after.base.values, before.data.tokens)}`);
  };
  return {
    set,
    step(to) {
      const { steps, tokens } = model.get("data");
      const at = Math.min(steps.length - 1, Math.max(0, to));
      set({ step: steps[at].name });
      const words = `Step ${at + 1} of ${steps.length}: ${steps[at].label}, ${steps[at].title}.`;
      say(`${words} ${seen(steps[at], look(model).base.values, tokens)}`);
    },
    choose({ name, i, j }) {
      set({ entry: [name, i, j] });
      say(arithmetic(look(model)).join(" "));
    },
    edit({ name, i, j }, value) {
      const { x, weights, overrides, data: { labels } } = look(model);
      const key = keyOf({ name, i, j });
      const replaced = (matrix) => each(matrix, (old, r, c) => (r === i && c === j ? value : old));
      const changed = { overrides: { ...overrides, [key]: value } };
      if (name === "x") Object.assign(changed, { x: replaced(x), overrides });
      if (weights[name]) Object.assign(changed, { weights: { ...weights, [name]: replaced(weights[name]) }, overrides });
      edit(`${labels[name]} is now ${shown(value)} there.`, key, changed);
    },
    compute(entry) {
      const { [keyOf(entry)]: _, ...overrides } = model.get("overrides");
      edit("It is computed again.", undefined, { overrides });
    },
    reset() {
      const { x, weights } = model.get("data");
      edit("All numbers are as at the start.", undefined, { x, weights, overrides: {} });
    },
    undo() {
      set(history.pop().values);
      say("Your last change is undone.");
    },
  };
}

/** The panel of the chosen entry: its arithmetic, a field to type in, nudges. */
function entryPanel(acts) {
  let it;
  const lines = element("div", { class: "tb-block_by_hand-arithmetic" });
  const valueOf = ({ base: { values }, entry: { name, i, j } }) => values[name][i][j];
  const field = numberField({ label: "", value: 0, min: -1e6, max: 1e6, onInput: (value) => acts.edit(it.entry, value) });
  const nudge = (by) => {
    field.input.value = Number(((Number.isFinite(valueOf(it)) ? valueOf(it) : 0) + by).toFixed(6));
    field.input.dispatchEvent(new Event("input"));
  };
  field.input.addEventListener("keydown", (event) => {
    const by = { ArrowUp: NUDGE, ArrowDown: -NUDGE }[event.key];
    if (!by && !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    if (by) nudge(event.shiftKey ? 10 * by : by);
    else acts.back();
  });
  const again = button("Compute it again", () => acts.compute(it.entry));
  const draw = (now) => {
    it = now;
    const [rows, columns] = headings(it.entry.name, it);
    const hint = field.node.querySelector(".tb-hint");
    lines.replaceChildren(...arithmetic(it).map((text) => element("div", { text })));
    const place = `row ${rows[it.entry.i]}, column ${columns[it.entry.j]}`;
    field.node.querySelector("label").textContent = `${it.data.labels[it.entry.name]}, ${place}`;
    field.set(Number.isFinite(valueOf(it)) ? Number(valueOf(it).toFixed(6)) : "");
    again.hidden = !(keyOf(it.entry) in it.overrides);
    if (Number.isFinite(valueOf(it))) return;
    field.input.setAttribute("aria-invalid", "false");
    hint.textContent = "−∞. A number here lets the token look ahead";
  };
  const node = element("div", { class: "tb-block_by_hand-panel" }, lines, element("div", { class: "tb-controls" }, field.node,
    button("−", () => nudge(-NUDGE), { "aria-label": "− 0.1" }),
    button("+", () => nudge(NUDGE), { "aria-label": "+ 0.1" }), again));
  return { node, draw, focus: () => { field.input.focus(); field.input.select(); } };
}

const QUESTIONS = {
  "times ten": ({ data, row }) => `The row of ${data.tokens[row]} becomes ten times as long.`,
  "last token": ({ data }) => `The last token, ${data.tokens.at(-1)}, is replaced by ${data.other.word}.`,
  "no attention": () => "Wo becomes 0, so that attention adds nothing.",
};

/** The reader's prediction beside what the numbers say. */
function judged({ data: { steps, tokens }, base, changed, guess, case: name }) {
  const sizes = differences(base.values.y, changed.values.y);
  const right = sizes.every((size, t) => (compared(size) === "≠") === guess.includes(t));
  const said = guess.length ? list(tokens.filter((_, t) => guess.includes(t))) : "no row";
  return `You said ${said}: ${right ? "right" : "not quite"}. ${verdict(name, steps, base.values, changed.values, tokens)}`;
}

/** A case: its question with boxes to tick, and after that what came of it. */
function casePanel(model, acts, say) {
  const { tokens } = model.get("data");
  const rows = choice({
    label: "Row", value: 0, options: tokens.map((token, t) => [t, token]),
    onInput: (row) => acts.set({ guess: [], shown: false, row }),
  });
  const words = element("p", { tabindex: -1 });
  const tick = (t, on) => acts.set({ guess: [...model.get("guess").filter((other) => other !== t), ...(on ? [t] : [])] });
  const boxes = tokens.map((label, t) => toggle({ label, value: false, onInput: (on) => tick(t, on) }));
  const show = button("Show the case", () => {
    acts.set({ shown: true });
    words.focus(); // the button is gone
    say(judged(look(model)));
  });
  const answers = element("div", { class: "tb-controls" }, ...boxes.map((box) => box.node), show);
  const node = element("div", { class: "tb-block_by_hand-panel", role: "group", "aria-label": "Case" },
    rows.node, words, answers);
  const draw = (it) => {
    node.hidden = !QUESTIONS[it.case];
    if (node.hidden) return;
    rows.node.hidden = it.case !== "times ten";
    rows.set(it.row);
    answers.hidden = it.shown;
    boxes.forEach((box, t) => box.set(it.guess.includes(t)));
    const asked = "Predict: which rows of y will differ? Tick them.";
    words.textContent = `${QUESTIONS[it.case](it)} ${it.shown ? judged(it) : asked}`;
  };
  return { node, draw };
}

/** The list of steps, with Back and Next and what to predict; in a case each bears the mark of its difference. */
function stepList(acts) {
  let at = 0;
  const [back, next] = [["Back", -1], ["Next", 1]].map(([label, by]) => button(label, () => acts.step(at + by)));
  const place = element("span", { class: "tb-value" });
  const ask = element("p");
  const steps = element("ol", { class: "tb-block_by_hand-steps" });
  const draw = (it) => {
    at = it.at;
    const coming = it.data.steps[at + 1];
    place.textContent = `Step ${at + 1} of ${it.data.steps.length}`;
    ask.textContent = coming
      ? `Next is ${coming.label}, ${coming.title}. Predict: ${coming.ask}` : "That is the block. Now predict what the cases do.";
    back.setAttribute("aria-disabled", String(at === 0));
    next.setAttribute("aria-disabled", String(!coming));
    it.data.steps.forEach(({ name, label, title }, k) => {
      const mark = it.changed && compared(Math.max(...differences(it.base.values[name], it.changed.values[name])));
      if (!steps.children[k]) steps.append(element("li", {}, button("", () => acts.step(k))));
      const chip = steps.children[k].firstChild;
      const unseen = element("span", { class: "tb-unseen", text: `${title}${mark ? `: ${MARKS[mark]}` : ""}` });
      chip.replaceChildren(mark ? `${label} ${mark}` : label, unseen);
      chip.setAttribute("aria-current", k === at ? "step" : "false");
      chip.classList.toggle("tb-block_by_hand-different", mark === "≠");
    });
  };
  const moves = element("div", { class: "tb-controls" }, back, place, next);
  return { node: element("nav", { "aria-label": "Steps" }, moves, ask, steps), draw };
}

/** The formula of the step, its matrices, and what is seen in them. */
function stage(acts) {
  let it;
  const title = element("p", { class: "tb-block_by_hand-formula" });
  const told = element("p");
  const board = element("div", { class: "tb-block_by_hand-board" });
  const light = ({ name, i, j }) => board.querySelectorAll("[data-at]").forEach((cell) => {
    const operand = name === it.step.name ? it.step.from.indexOf(cell.closest("table").dataset.key) : -1;
    const [r, c] = cell.dataset.at.split(",").map(Number);
    cell.classList.toggle("tb-block_by_hand-used", operand >= 0 && USED[it.step.op][operand](r, c, i, j));
  });
  const focus = (key) => board.querySelector(`table[data-key="${key}"] [tabindex="0"]`)?.focus();
  const mine = {
    choose: acts.choose,
    hover: light,
    leave: () => light(it.entry),
    key(event, { name, i, j }) {
      const values = it.base.values[name];
      const to = stepped(event.key, i, j, values.length, values[0].length);
      const typed = /^[-0-9.]$/.test(event.key) && !event.ctrlKey && !event.metaKey;
      if (to) acts.choose({ name, i: to[0], j: to[1] });
      else if (typed || event.key === "Enter") acts.type({ name, i, j });
      if (to || event.key === "Enter") event.preventDefault(); // a digit is left to the field, which now has the focus
    },
  };
  const draw = (now) => {
    it = now;
    const { step, base: { values }, changed, operands, data: { tokens } } = it;
    const active = board.getRootNode().activeElement;
    const key = board.contains(active) && active.closest("table")?.dataset.key;
    const formula = step.formula.replace("NORM", it.norm === "layernorm" ? "LayerNorm" : "RMSNorm");
    const from = step.op === "product" ? `${operands.map((name) => shape(values[name])).join(" × ")} gives ` : "";
    title.textContent = `${formula}: ${step.title}. Shape: ${from}${shape(values[step.name])}.`;
    told.textContent = changed ? change(step, values, changed.values, tokens) : seen(step, values, tokens);
    board.replaceChildren(...matrices(it, mine));
    light(it.entry);
    if (key) focus(key);
  };
  return { nodes: [title, board, told], draw, focus: () => focus(it.entry.name === it.step.name ? "result" : it.entry.name) };
}

/** What is seen, and all numbers of the present state as a table, for "In words". */
function inTable({ data: { steps, tokens }, base, changed, case: name }) {
  const { values } = changed ?? base;
  const told = changed ? verdict(name, steps, base.values, values, tokens) : seen(steps.at(-1), values, tokens);
  const rows = steps.map((step) => [step.label, ...values[step.name].map((row) => row.map(shown).join(" "))]);
  return [element("p", { text: told }),
    element("div", { class: "tb-scroll", tabindex: "0", role: "group", "aria-label": "All steps" },
      table("The numbers of every step", ["step", ...tokens], rows))];
}

function render({ model, el }) {
  const { root, say } = room(el, model, "block_by_hand");
  const history = [];
  const acts = actions(model, say, history);
  const parts = { cases: casePanel(model, acts, say), steps: stepList(acts), stage: stage(acts), entry: entryPanel(acts) };
  acts.back = parts.stage.focus;
  acts.type = (entry) => { acts.choose(entry); parts.entry.focus(); };
  const buttons = CASES.map(([name, label]) => button(label, () => {
    acts.set({ guess: [], shown: false, case: name });
    say(name ? `${label}. Predict which rows of y will differ.` : "As it is, without a case.");
  }));
  const norms = choice({
    label: "Norm", value: model.get("norm"), options: [["layernorm", "LayerNorm"], ["rmsnorm", "RMSNorm"]],
    onInput: (kind) => { acts.set({ norm: kind }); say(`The norm is now ${kind}.`); },
  });
  const undo = button("Undo", acts.undo);
  const controls = (...nodes) => element("div", { class: "tb-controls" }, ...nodes);
  const problem = element("p", { class: "tb-hint", role: "alert" });
  const words = inWords(model.get("words"));
  const help = element("p", { class: "tb-block_by_hand-help", text: HELP });
  const body = element("div", {}, controls(...buttons, norms.node), parts.cases.node, parts.steps.node, ...parts.stage.nodes,
    parts.entry.node, help, controls(undo, button("All numbers as at the start", acts.reset)), words.node);
  root.append(problem, body);
  return watch(model, VALUES, () => {
    const it = look(model);
    problem.textContent = it.wrong ?? "";
    body.hidden = Boolean(it.wrong);
    if (it.wrong) return;
    for (const part of Object.values(parts)) part.draw(it);
    buttons.forEach((node, k) => node.setAttribute("aria-pressed", String(CASES[k][0] === it.case)));
    norms.set(it.norm);
    undo.disabled = !history.length;
    words.set(...inTable(it));
  });
}

export default { render };
