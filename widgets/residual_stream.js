// The residual stream: lengths and gradients by depth on one scrubber, and below it what the stream would say there.

import {
  choice, clip, element, grouped, inWords, percent, put, quoted, room, slider, svg, table, tokenRow, watch,
} from "./shared.js";

const LEFT = 58; // px of a chart beside its frame
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 38;
const LINES = [
  ["stream", "stream"],
  ["attn", "attention added"],
  ["ffn", "feed-forward added"],
];

/** A length as it is shown; Python has rounded it to these digits. */
export function number(value) {
  if (value > 0 && value < 0.001) {
    const [digits, power] = value.toExponential(2).split("e");
    return `${digits} × 10${raised(power)}`;
  }
  return value >= 100 ? grouped(value) : value.toPrecision(3);
}

function raised(power) {
  return String(power).replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
}

/** The powers of ten that enclose all positive values: [lowest, highest] exponent. */
export function decades(values) {
  const exponents = values.filter((value) => value > 0).map(Math.log10);
  if (!exponents.length) return [0, 1];
  const low = Math.floor(Math.min(...exponents));
  return [low, Math.max(low + 1, Math.ceil(Math.max(...exponents)))];
}

/** What stands at one depth for one token; null where there is nothing to measure. */
export function measured(sentence, depth, token) {
  const block = depth - 1; // the one that wrote last
  return {
    stream: sentence.stream[depth][token],
    median: sentence.median[depth],
    attn: sentence.attn[block]?.[token] ?? null,
    ffn: sentence.ffn[block]?.[token] ?? null,
    gradient: sentence.gradient[depth]?.[token] ?? null,
    guesses: sentence.lens[depth][token].map(([index, share]) => [sentence.guesses[index], share]),
  };
}

/** What the present state shows, in sentences. */
export function explained(sentence, depth, token) {
  const { stream, median, attn, ffn, gradient, guesses } = measured(sentence, depth, token);
  const name = quoted(sentence.pieces[token]);
  const times = median > 0 ? stream / median : 0;
  const against = times >= 3 ? `, about ${about(times)} times the median token's` : "";
  const said = [depth
    ? `After block ${depth} the stream of ${name} has length ${number(stream)}${against}. ${wrote(depth, attn, ffn)}`
    : `No block has run yet. The stream of ${name} is what it begins with, of length ${number(stream)}${against}.`];
  if (gradient !== null) {
    said.push(`A small push here moves the loss by at most about ${number(gradient)} times the push's length.`);
  }
  said.push(`Read as if it were the last, this stream would go on with ${quoted(guesses[0][0])} (${percent(guesses[0][1])}).`);
  return said.join(" ");
}

function about(times) {
  return grouped(Number(times.toPrecision(2)));
}

function wrote(depth, attn, ffn) {
  const more = attn > ffn ? "attention wrote more" : "the feed-forward wrote more";
  return `Its attention added ${number(attn)}, its feed-forward ${number(ffn)}: ${attn === ffn ? "both wrote alike" : more}.`;
}

function render({ model, el }) {
  const { layers, sentences } = model.get("data");
  const { root, say } = room(el, model, "residual_stream");
  const now = () => {
    const sentence = sentences[clip(model.get("sentence"), sentences.length)];
    return { sentence, depth: clip(model.get("depth"), layers + 1), token: clip(model.get("token"), sentence.pieces.length) };
  };
  const go = (depth) => put(model, "depth", depth);
  const controls = makeControls(model, sentences, layers, go);
  const charts = makeCharts(layers, go);
  const text = element("p", { class: "tb-residual_stream-says" });
  const readout = element("div", { class: "tb-residual_stream-readout" });
  const lens = element("ol", { class: "tb-residual_stream-lens" });
  const words = inWords(model.get("words"));
  root.prepend(question(), ...controls.nodes, ...charts.nodes, readout, titled("Logit lens: what this stream would go on with"),
    lens, text, words.node);
  let started = false;
  const stop = watch(model, ["sentence", "depth", "token"], () => {
    const { sentence, depth, token } = now();
    const here = measured(sentence, depth, token);
    controls.set(now());
    charts.set(now());
    readout.replaceChildren(...legend(here, depth, token === sentence.pieces.length - 1, layers));
    lens.replaceChildren(...here.guesses.map(guessed));
    text.textContent = explained(sentence, depth, token);
    if (started) {
      words.set(inTable(sentence, token, layers));
      say(text.textContent);
    }
    started = true; // until something is moved, the words are Python's
  });
  const sized = new ResizeObserver(() => charts.set(now()));
  sized.observe(root);
  return () => { sized.disconnect(); stop(); };
}

function question() {
  return element("p", {}, element("b", { text: "Predict: " }),
    "does every token's stream grow alike, and which branch writes more? " +
    "How early can you read the next word in it? Move the slider, or drag in a chart.");
}

function titled(text) {
  return element("p", { class: "tb-residual_stream-title", text });
}

function makeControls(model, sentences, layers, go) {
  const chosen = choice({
    label: "Sentence", options: sentences.map(({ pieces }, index) => [index, pieces.join("")]), value: 0,
    onInput: (index) => {
      model.set("token", sentences[index].pieces.length - 1);
      put(model, "sentence", index);
    },
  });
  const scrubber = slider({
    label: "Blocks passed", min: 0, max: layers, value: 0, show: (v) => `${v} of ${layers}`, onInput: go,
  });
  const tokens = tokenRow({ label: "The token whose stream is followed", onPick: (token) => put(model, "token", token) });
  const set = ({ sentence, depth, token }) => {
    chosen.set(sentences.indexOf(sentence));
    scrubber.set(depth);
    tokens.set(sentence.pieces, token);
  };
  return { nodes: [element("div", { class: "tb-controls" }, chosen.node, scrubber.node), tokens.node], set };
}

function makeCharts(layers, go) {
  const lengths = makeChart("Length of the token's stream, and of what each branch added to it", layers, go);
  const gradients = makeChart("Length of the loss's gradient at the token's stream", layers, go);
  const set = ({ sentence, depth, token }) => {
    lengths.draw(curvesOf(sentence, LINES.map(([key]) => key), token, { attn: 1, ffn: 1 }), depth);
    gradients.draw(curvesOf(sentence, ["gradient"], token, {}), depth);
  };
  return { nodes: [lengths.node, gradients.node], set };
}

/** Lines of one quantity or several: the chosen token's, and before them, thin, all tokens' of the first. */
function curvesOf(sentence, keys, token, shifts) {
  const line = (key, of) => sentence[key].map((row, at) => [at + (shifts[key] ?? 0), row[of]]);
  const thin = sentence[keys[0]][0].map((_, of) => ({ name: "other", points: line(keys[0], of) }));
  const all = keys.flatMap((key) => sentence[key].flat()); // of all tokens, so that the axis stays where it is
  return { lines: [...thin, ...keys.map((name) => ({ name, points: line(name, token) }))], axis: decades(all) };
}

function legend(here, depth, last, layers) {
  const lines = LINES.map(([key, label]) => [key, key === "stream" || !depth ? label : `block ${depth}'s ${label}`, here[key]]);
  lines.push(["gradient", "gradient of the loss", here.gradient]);
  const why = last ? "none: the last token has no next one to predict" : `measured before each of the ${layers} blocks`;
  const none = { attn: "no block yet", ffn: "no block yet", gradient: why };
  return [
    ...lines.map(([key, label, value]) =>
      sample(key, `${label}: `, element("b", { text: value === null ? none[key] : number(value) }))),
    sample("other", "the other tokens"),
  ];
}

function sample(key, ...words) {
  const line = svg("path", { d: "M1 6H29", class: `tb-residual_stream-line tb-residual_stream-${key}` });
  return element("div", {}, svg("svg", { width: 30, height: 12, "aria-hidden": "true" }, line), ...words);
}

function guessed([piece, share]) {
  return element("li", {},
    element("span", { class: "tb-residual_stream-guess", text: quoted(piece) }),
    element("span", { class: "tb-residual_stream-bar", "aria-hidden": "true" }, element("i", { style: `width: ${share / 10}%` })),
    element("span", { class: "tb-residual_stream-share", text: percent(share) }));
}

function inTable(sentence, token, layers) {
  const cell = (value) => (value === null ? "–" : number(value));
  return table(`The stream of ${quoted(sentence.pieces[token])} by depth`,
    ["blocks passed", "length", "attention added", "feed-forward added", "gradient", "best guess"],
    Array.from({ length: layers + 1 }, (_, depth) => {
      const { stream, attn, ffn, gradient, guesses } = measured(sentence, depth, token);
      return [depth, ...[stream, attn, ffn, gradient].map(cell), `${quoted(guesses[0][0])} ${percent(guesses[0][1])}`];
    }));
}

/** A chart over depth with a logarithmic scale; dragging in it moves the scrubber. */
function makeChart(title, layers, go) {
  const box = element("div", { class: "tb-residual_stream-chart" });
  const node = element("div", {}, titled(`${title} (logarithmic scale)`), box);
  const frame = () => ({ from: LEFT, to: Math.max(200, box.clientWidth) - RIGHT });
  const move = (event) => {
    const { from, to } = frame();
    go(clip(Math.round(((event.clientX - box.getBoundingClientRect().left - from) / (to - from)) * layers), layers + 1));
  };
  box.addEventListener("pointerdown", (event) => { box.setPointerCapture(event.pointerId); move(event); });
  box.addEventListener("pointermove", (event) => { if (box.hasPointerCapture(event.pointerId)) move(event); });
  const draw = ({ lines, axis: [low, high] }, depth) => {
    const { from, to } = frame();
    const height = Math.min(300, Math.max(170, 34 * (high - low)));
    const x = (at) => from + (at / layers) * (to - from);
    const y = (value) => TOP + ((high - Math.log10(value)) / (high - low)) * height;
    box.replaceChildren(svg("svg", {
      width: to + RIGHT, height: TOP + height + BOTTOM, role: "img",
      "aria-label": `${title}, by blocks passed; the numbers stand below`,
    },
      ...scales(low, high, layers, x, y, height),
      ...lines.map(({ name, points }) => svg("path", {
        class: `tb-residual_stream-line tb-residual_stream-${name}`, d: path(points, x, y),
      })),
      svg("line", { class: "tb-residual_stream-now", x1: x(depth), x2: x(depth), y1: TOP, y2: TOP + height }),
      ...lines.filter(({ name }) => name !== "other").map(({ name, points }) => dot(name, points, depth, x, y))));
  };
  return { node, draw };
}

function scales(low, high, layers, x, y, height) {
  const marks = [];
  const step = Math.ceil((high - low) / 8);
  for (let power = low; power <= high; power += step) {
    const at = y(10 ** power);
    const text = power < -3 || power > 5 ? `10${raised(power)}` : grouped(Number(`1e${power}`));
    marks.push(svg("line", { class: "tb-residual_stream-grid", x1: x(0), x2: x(layers), y1: at, y2: at }),
      svg("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end", text }));
  }
  const every = [1, 2, 5, 10, 20, 50, 100].find((count) => layers / count <= 8) ?? layers;
  for (let at = 0; at <= layers; at += every) {
    marks.push(svg("text", { x: x(at), y: TOP + height + 16, "text-anchor": "middle", text: at }));
  }
  marks.push(svg("text", { x: x(layers / 2), y: TOP + height + 33, "text-anchor": "middle", text: "blocks passed" }));
  return marks;
}

function path(points, x, y) {
  let pen = "M";
  return points.map(([at, value]) => {
    if (!(value > 0)) { pen = "M"; return ""; } // nothing there has no logarithm
    const step = `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
}

function dot(name, points, depth, x, y) {
  const value = points.find(([at]) => at === depth)?.[1];
  if (!(value > 0)) return null;
  return svg("circle", { class: `tb-residual_stream-dot tb-residual_stream-${name}`, cx: x(depth), cy: y(value), r: 4.5 });
}

export default { render };
