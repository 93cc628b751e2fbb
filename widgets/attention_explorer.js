// The attention explorer: tokens and the map of one head, shaded by where they look, and all heads by what they do.

import {
  bare, choice, clip, element, inWords, percent, put, quoted, room, shade, slider, stepped, svg, table, toggle, tokenRow,
  watch,
} from "./shared.js";

const CELL = 24; // px, in both maps: large enough for a finger
const HABITS = [
  ["first", "share of the first token"],
  ["before", "share of the token before"],
  ["itself", "share of the token itself"],
  ["entropy", "evenness (entropy)"],
];

/**
 * Where one token looks, in thousandths: a weight for each token, null for one that it cannot see. `without` leaves the
 * first token out (null, too); the rest is divided by its sum. `at` is { layer, head, token }, from 0.
 */
export function weights(sentence, { heads, causal }, { layer, head, token }, without = false) {
  const T = sentence.pieces.length;
  const first = without ? 1 : 0;
  const seen = (row) => (causal ? row + 1 : T) - first;
  const above = (rows) => (causal ? (rows * (rows + 1)) / 2 : rows * T) - first * rows; // numbers in so many rows
  const start = (layer * heads + head) * above(T) + above(token);
  const digits = without ? sentence.others : sentence.weights;
  const row = Array(T).fill(null);
  for (let i = 0; i < seen(token); i++) row[i + first] = parseInt(digits.substr(2 * (start + i), 2), 32);
  return row;
}

/** The tokens with the largest weights, [index, weight], largest first. */
export function strongest(row, count) {
  const seen = row.map((weight, index) => [index, weight]).filter(([, weight]) => weight !== null);
  return seen.sort((a, b) => b[1] - a[1]).slice(0, count);
}

/** What the present state shows, in sentences. */
export function explained(sentence, data, at, without) {
  const row = weights(sentence, data, at, without);
  const name = quoted(sentence.pieces[at.token]);
  const [most, next] = strongest(row, 2).map(([index, weight]) => `${quoted(sentence.pieces[index])} (${percent(weight)})`);
  const said = [];
  if (without) {
    const lost = weights(sentence, data, at)[0];
    if (!most) return `${name} sees only itself. Without the first token nothing is left.`;
    said.push(`The first token got ${percent(lost)}. It is left out here, and the rest is scaled up to 100%; ` +
      "the model does not do this.");
  }
  said.push(next ? `${name} looks most at ${most}, then at ${next}.` : `${name} sees only ${most}.`);
  return `${said.join(" ")} ${habit(sentence.habits, at)}`;
}

function habit(habits, { layer, head }) {
  const [first, before, itself] = ["first", "before", "itself"].map((key) => habits[key][layer][head]);
  const most = [[first, "at the first token"], [before, "one token back"], [itself, "at the token itself"]];
  const where = most.find(([share]) => share > 500)?.[1];
  return `From the third token on, this head gives on average ${percent(first)} to the first token, ${percent(before)} ` +
    `to the one before, ${percent(itself)} to the token itself: it ` +
    `${where ? `looks mostly ${where}` : "does none of these mostly"}.`;
}

/** Where the model stands: what is out of range is brought back; `over` is a token that is looked at, not chosen. */
function standing(model, data, over) {
  const sentence = data.sentences[clip(model.get("sentence"), data.sentences.length)];
  const token = clip(over ?? model.get("token"), sentence.pieces.length);
  const at = { layer: clip(model.get("layer"), data.layers), head: clip(model.get("head"), data.heads), token };
  return { sentence, at, without: model.get("without_first"), habit: model.get("habit") };
}

function render({ model, el }) {
  const data = model.get("data");
  const { root, say } = room(el, model, "attention_explorer");
  let over;
  const now = () => standing(model, data, over);
  const pick = (token) => { over = undefined; put(model, "token", token); };
  const hover = (token) => { if (token !== over) { over = token; draw(now()); } };
  const controls = makeControls(model, data);
  const tokens = tokenRow({ label: "The token that looks", onPick: pick, onHover: hover });
  const text = element("p", { class: "tb-attention_explorer-says" });
  const map = makeMap(pick, hover);
  const heads = makeHeads(model, data);
  const words = inWords(model.get("words"));
  root.prepend(question(), element("div", { class: "tb-attention_explorer-parts" },
    element("div", { class: "tb-attention_explorer-one" }, controls.node, tokens.node, map.node, text), heads.node), words.node);

  const draw = ({ sentence, at, without }) => {
    const row = weights(sentence, data, at, without);
    tokens.set(sentence.pieces, at.token).forEach((button, index) => {
      const seen = row[index] !== null;
      button.style.background = seen ? shade(0.45 * Math.sqrt(row[index] / 1000)) : "none"; // the text stays legible
      button.lastChild.textContent = seen ? percent(row[index]) : "–";
    });
    text.textContent = explained(sentence, data, at, without);
    map.set(sentence, data, at, without);
  };
  let started = false;
  return watch(model, ["sentence", "layer", "head", "token", "without_first", "habit"], () => {
    for (const part of [{ set: draw }, controls, heads]) part.set(now());
    if (started) {
      words.set(...written(now(), data, text.textContent));
      say(text.textContent.split(" From the third")[0]);
    }
    started = true; // until something is moved, the words are Python's
  });
}

function question() {
  return element("p", {}, element("b", { text: "Predict: " }), "at which word should a token look to help guess the next one? " +
    "Choose a token and try some heads. Then leave the first token out: what does a head do besides?");
}

function written({ sentence, at, without }, data, text) {
  const row = weights(sentence, data, at, without);
  const seen = strongest(row, row.length).filter(([, weight]) => weight);
  const caption = `Block ${at.layer + 1}, head ${at.head + 1}: where ${quoted(sentence.pieces[at.token])} looks`;
  const rows = seen.map(([index, weight]) => [quoted(sentence.pieces[index]), percent(weight)]);
  return [element("p", { text }), table(caption, ["token", "weight"], rows)];
}

function makeControls(model, { sentences, layers, heads }) {
  const sentence = choice({
    label: "Sentence", options: sentences.map(({ pieces }, index) => [index, pieces.join("")]), value: 0,
    onInput: (index) => {
      model.set("token", sentences[index].pieces.length - 1);
      put(model, "sentence", index);
    },
  });
  const counted = (label, name, max) => slider({
    label, min: 1, max, value: 1, show: (v) => `${v} of ${max}`, onInput: (v) => put(model, name, v - 1),
  });
  const layer = counted("Block", "layer", layers);
  const head = counted("Head", "head", heads);
  const without = toggle({
    label: "Leave out the first token", value: false, onInput: (value) => put(model, "without_first", value),
  });
  const node = element("div", { class: "tb-controls" }, sentence.node, layer.node, head.node, without.node);
  const set = (now) => {
    sentence.set(clip(model.get("sentence"), sentences.length));
    layer.set(now.at.layer + 1);
    head.set(now.at.head + 1);
    without.set(now.without);
  };
  return { node, set };
}

/** The head's map: rows look, columns are looked at. */
function makeMap(pick, hover) {
  const box = element("div", { class: "tb-scroll", tabindex: "0", role: "group", "aria-label": "Map of the head" });
  const title = element("p", { class: "tb-attention_explorer-title" });
  const scale = element("div", { class: "tb-attention_explorer-scale", "aria-hidden": "true" },
    ...[0, 0.0625, 0.25, 0.5625, 1].map((share) => element("span", {},
      element("i", { style: `background: ${shade(Math.sqrt(share))}` }), `${Math.round(100 * share)}%`)));
  const note = element("p", { class: "tb-attention_explorer-note" },
    "Rows look at columns. Colour follows the square root of the weight:");
  const node = element("div", {}, title, box, note, scale);
  let count = 0;
  let top = 0;
  const rowAt = (event) => {
    const row = Math.floor((event.clientY - box.firstChild.getBoundingClientRect().top - top) / CELL);
    return row >= 0 && row < count ? row : undefined;
  };
  box.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") hover(rowAt(event)); });
  box.addEventListener("pointerleave", () => hover());
  box.addEventListener("click", (event) => { if (rowAt(event) !== undefined) pick(rowAt(event)); });
  const set = (sentence, data, at, without) => {
    count = sentence.pieces.length;
    title.textContent = `Block ${at.layer + 1}, head ${at.head + 1}${without ? ", without the first token" : ""}`;
    const rows = sentence.pieces.map((_, token) => weights(sentence, data, { ...at, token }, without));
    const label = `${title.textContent}: its map; the numbers of the marked row stand above`;
    top = drawMap(box, label, sentence.pieces.map(bare), rows, at.token);
  };
  return { node, set };
}

/** Draw the map into `box`; returns where its first row begins, in px from its top. */
function drawMap(box, label, names, rows, marked) {
  const side = 12 + Math.ceil(7.2 * Math.max(...names.map((name) => name.length)));
  const at = (index) => side + index * CELL;
  const width = at(names.length) + 2;
  const square = (weight, row, column) => svg("rect", {
    x: at(column), y: at(row), width: CELL - 1, height: CELL - 1, style: `fill: ${shade(Math.sqrt(weight / 1000))}`,
  });
  box.replaceChildren(svg("svg", { width, height: width, role: "img", "aria-label": label },
    ...names.map((text, row) => svg("text", {
      x: side - 6, y: at(row) + 16, "text-anchor": "end", text, class: row === marked ? "tb-attention_explorer-on" : null,
    })),
    ...names.map((text, column) => svg("text", { transform: `translate(${at(column) + 16} ${side - 6}) rotate(-90)`, text })),
    ...rows.flatMap((weights, row) => weights.map((weight, column) => (weight === null ? null : square(weight, row, column)))),
    svg("rect", {
      class: "tb-attention_explorer-row", x: side - 1, y: at(marked) - 1, width: names.length * CELL + 1, height: CELL + 1,
    })));
  return side;
}

/** All heads, a cell each: shaded by the habit that is chosen; press one to see it. */
function makeHeads(model, data) {
  const kind = choice({ label: "All heads by", options: HABITS, value: "first", onInput: (value) => put(model, "habit", value) });
  const value = element("p", { class: "tb-attention_explorer-note" });
  const go = (layer, head) => { model.set("layer", layer); put(model, "head", head); };
  const { grid, cells } = makeGrid(data, go);
  grid.addEventListener("keydown", (event) => {
    const { layer, head } = standing(model, data).at;
    const to = stepped(event.key, layer, head, data.layers, data.heads);
    if (!to) return;
    event.preventDefault();
    go(...to);
    cells[to[0]][to[1]].focus();
  });
  const set = ({ sentence, at, habit }) => {
    const [key, label] = HABITS.find(([name]) => name === habit) ?? HABITS[0];
    const bits = key === "entropy";
    const most = bits ? Math.log2(sentence.pieces.length) : 1000;
    const inText = (v) => (bits ? `${v.toFixed(2)} bits` : percent(v));
    kind.set(key);
    cells.forEach((row, layer) => row.forEach((cell, head) => {
      const number = sentence.habits[key][layer][head];
      const on = layer === at.layer && head === at.head;
      cell.style.background = shade(number / most, "third");
      cell.title = `block ${layer + 1}, head ${head + 1}: ${inText(number)}`;
      cell.setAttribute("aria-label", cell.title);
      cell.setAttribute("aria-selected", String(on));
      cell.tabIndex = on ? 0 : -1;
    }));
    const chosen = inText(sentence.habits[key][at.layer][at.head]);
    value.textContent = `Block ${at.layer + 1}, head ${at.head + 1}, ${label}: ${chosen}. ` +
      `Mean from the third token on. Full colour: ${bits ? inText(most) : "100%"}.`;
  };
  const over = element("div", { class: "tb-attention_explorer-numbers", text: "head" });
  return { node: element("div", { class: "tb-attention_explorer-all" }, kind.node, value, over, grid), set };
}

function makeGrid({ layers, heads }, go) {
  const line = (...cells) => element("div", { role: "row" }, ...cells);
  const top = (text) => element("div", { role: "columnheader", text });
  const cells = Array.from({ length: layers }, (_, layer) => Array.from({ length: heads }, (_, head) =>
    element("div", { role: "gridcell", class: "tb-attention_explorer-cell", onclick: () => go(layer, head) })));
  const grid = element("div", {
    role: "grid", class: "tb-attention_explorer-heads", style: `--heads: ${heads}`,
    "aria-label": "Heads: a row for each block, a column for each head",
  }, line(top("block"), ...cells[0].map((_, head) => top(head + 1))),
  ...cells.map((row, layer) => line(element("div", { role: "rowheader", text: layer + 1 }), ...row)));
  return { grid, cells };
}

export default { render };
