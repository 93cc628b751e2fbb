// RoPE seen: hands of clocks for each pair of a query and a key, and a map of the score over all positions.

import {
  button, choice, clip, decimal, element, grouped, inWords, put, room, signed, slider, stepped, svg, table, watch,
} from "./shared.js";
import {
  LAYOUTS, entries, pairScores, reordered, scoreMap, speeds, turned, unfit, withHand,
} from "./rope_rotations_turns.js";

const VALUES = ["q", "k", "m", "n", "base", "pairing", "pair"];
const HANDS = [["q", "m", "query"], ["k", "n", "key"]];
const STEP = Math.PI / 36; // 5 degrees for a key pressed

function render({ model, el }) {
  const { root, say } = room(el, model, "rope");
  const { T } = model.get("data");
  const state = () => {
    const now = Object.fromEntries(VALUES.map((name) => [name, model.get(name)]));
    const pair = now.pair < 0 ? -1 : clip(now.pair, now.q.length / 2);
    return { ...now, layout: now.pairing, m: clip(now.m, T), n: clip(now.n, T), pair };
  };
  const parts = [controls(model, state, T), strip(), clocks(model, state), map(model, T)];
  const lesson = element("p", { class: "tb-rope-lesson" });
  const words = inWords(model.get("words"));
  root.append(
    element("p", { text: "Predict: query and key both move on by five places. Which hands turn, and what becomes of the score? " +
      "Then press “both on” five times." }),
    parts[0].node, parts[2].node, lesson, parts[1].node, parts[3].node, words.node,
  );
  function update() {
    const now = state();
    const wrong = unfit(now);
    if (wrong) {
      lesson.textContent = wrong;
      return;
    }
    const scores = scoreMap(now, T);
    for (const part of parts) part.show(now, scores);
    const said = explained(now, scores);
    lesson.textContent = said;
    words.set(inTable(now));
    say(said);
  }
  const stop = watch(model, VALUES, update);
  return () => { stop(); root.remove(); };
}

function explained(now, scores) {
  const by = now.n - now.m;
  const along = scores.flatMap((row, m) => (row[m + by] === undefined ? [] : [row[m + by]]));
  const far = `${Math.abs(by)} ${Math.abs(by) === 1 ? "place" : "places"}`;
  const where = by === 0 ? "The key stands where the query stands." :
    `The key stands ${far} ${by < 0 ? "back" : "ahead, which a causal head does not see"}.`;
  const spread = Math.max(...along) - Math.min(...along);
  const what = now.pair < 0 ? "score" : `part of pair ${now.pair} in the score`;
  const here = `${where} Their ${what} is ${decimal(scores[now.m][now.n])}.`;
  if (along.length === 1) return `${here} No other place has n − m = ${decimal(by, 0)}.`;
  const most = spread ? `they differ by at most ${spread.toExponential(0).replace("-", "−")}` : "to the last digit";
  return `${here} All ${along.length} places with n − m = ${decimal(by, 0)} have the same one (${most}).`;
}

function inTable(now) {
  const each = pairScores(now);
  const all = entries(now.q.length, now.layout);
  const rows = speeds(now.q.length, now.base).map((speed, i) => (
    [i, all[i].join(", "), Number(speed.toPrecision(4)), ...[now.m * speed, now.n * speed, each[i]].map((it) => decimal(it))]));
  const head = ["pair", "entries", "speed, radians a token", "query's turn", "key's turn", "score"];
  return element("div", { class: "tb-scroll", tabindex: "0", role: "group", "aria-label": "The pairs in numbers" },
    table("Query and key, pair by pair", head, rows));
}

function controls(model, state, T) {
  const { bases, widths, random } = model.get("data");
  const sliders = HANDS.map(([, at, name]) => (
    [at, slider({ label: `${name} at ${at} =`, min: 0, max: T - 1, value: 0, onInput: (value) => put(model, at, value) })]));
  const list = (name, label, values) => [name, choice({
    label, options: values.map((it) => [it, grouped(it)]), value: values[0], onInput: (it) => put(model, name, it),
  })];
  const lists = [list("base", "base", bases), list("pairing", "layout", LAYOUTS)];
  const vectors = (q, k) => { model.set("pair", -1); model.set("q", q); put(model, "k", k); };
  const width = choice({
    label: "head width", options: widths.map((it) => [it, `${it}: ${it / 2} pairs`]), value: widths[0],
    onInput: (it) => vectors(...random.map((row) => row.slice(0, it))),
  });
  const both = (by) => {
    const { m, n } = state();
    if (Math.min(m, n) + by < 0 || Math.max(m, n) + by >= T) return;
    model.set("m", m + by);
    put(model, "n", n + by);
  };
  const flat = () => state().q.map(() => 0.5);
  const row = (...nodes) => element("div", { class: "tb-controls" }, ...nodes);
  const node = element("div", {},
    row(...sliders.map(([, it]) => it.node), button("both back", () => both(-1)), button("both on", () => both(1))),
    row(...lists.map(([, it]) => it.node), width.node, button("reorder entries for this layout", () => {
      const { q, k, layout } = state();
      vectors(reordered(q, layout), reordered(k, layout));
    })),
    row(element("span", { text: "Query and key:" }),
      button("random", () => vectors(...random.map((it) => it.slice(0, state().q.length)))),
      button("one vector, equal hands", () => vectors(flat(), flat())),
      button("query one place back", () => vectors(turned(flat(), -1, state().base, state().layout), flat()))));
  return { node, show(now) {
    for (const [name, it] of [...sliders, ...lists]) it.set(now[name]);
    width.set(now.q.length);
  } };
}

/** The entries of query and key, before and after turning, with arcs that join each pair. */
function strip() {
  const node = element("div", { class: "tb-scroll", tabindex: "0", role: "group", "aria-label": "The entries and their pairs" });
  const [CELL, LEFT] = [40, 52];
  const text = (x, y, words, more = {}) => svg("text", { x, y, "text-anchor": "middle", text: words, ...more });
  function show(now) {
    const width = now.q.length;
    const rows = HANDS.flatMap(([x, at]) => [[x, now[x]], [`${x} at ${now[at]}`, turned(now[x], now[at], now.base, now.layout)]]);
    const most = Math.max(...rows.flatMap(([, values]) => values.map(Math.abs)));
    const centre = (entry) => LEFT + CELL * (entry + 0.5);
    const cells = rows.flatMap(([name, values], r) => [
      svg("text", { x: 0, y: 40 + 24 * r, text: name }),
      ...values.flatMap((value, entry) => [
        svg("rect", { x: centre(entry) - CELL / 2 + 1, y: 25 + 24 * r, width: CELL - 2, height: 22,
          style: `fill: ${signed(value / 2, most)}` }), // half the strength, so that the number is read
        text(centre(entry), 40 + 24 * r, decimal(value)),
      ])]);
    const foot = 24 + 24 * rows.length;
    const arcs = entries(width, now.layout).flatMap(([a, b], i) => {
      const middle = (centre(a) + centre(b)) / 2;
      const deep = foot + (b - a > 1 ? 26 : 14);
      return [
        svg("path", { d: `M${centre(a)} ${foot} Q${middle} ${2 * deep - foot} ${centre(b)} ${foot}`,
          class: i === now.pair ? "tb-rope-chosen" : "tb-rope-arc" }),
        text(middle, deep + 5, `${i}`, { class: "tb-rope-number" }),
      ];
    });
    const spoken = entries(width, now.layout).map(([a, b], i) => `pair ${i} is entries ${a} and ${b}`).join(", ");
    node.replaceChildren(svg("svg", { class: "tb-rope-strip", width: LEFT + CELL * width, height: foot + 38, role: "img",
      "aria-label": `Layout ${now.layout}: ${spoken}.` },
      svg("text", { x: 0, y: 15, text: "entry" }), ...now.q.map((_, entry) => text(centre(entry), 15, `${entry}`)),
      ...cells, svg("text", { x: 0, y: foot + 20, text: "pair" }), ...arcs));
  }
  return { node: element("div", {}, element("p", { class: "tb-rope-title", text: "Which entries make up a pair" }), node), show };
}

/** A clock for each pair. Its two hands can be dragged, or turned by the arrow keys. */
function clocks(model, state) {
  const node = element("div", { class: "tb-rope-clocks" });
  let made = [];
  const turn = (x, pair, angle) => put(model, x, withHand(state()[x], pair, angle, state().layout));
  function show(now) {
    const all = entries(now.q.length, now.layout);
    if (made.length !== all.length) {
      made = all.map((_, pair) => clock(
        pair, (x, angle) => turn(x, pair, angle), () => put(model, "pair", state().pair === pair ? -1 : pair)));
      node.replaceChildren(...made.map((it) => it.node));
    }
    const longest = Math.max(...HANDS.flatMap(([x]) => all.map(([a, b]) => Math.hypot(now[x][a], now[x][b])))) || 1;
    const [each, speed] = [pairScores(now), speeds(now.q.length, now.base)];
    const at = HANDS.map(([x, position]) => turned(now[x], now[position], now.base, now.layout));
    made.forEach((it, i) => it.show({
      tips: at.map((x) => all[i].map((entry) => x[entry] / longest)),
      said: [`entries ${all[i].join(", ")}`, `${Number(speed[i].toPrecision(3))} rad a token`, `score ${decimal(each[i])}`],
      chosen: now.pair === i,
    }));
  }
  const legend = element("p", { class: "tb-rope-title",
    text: "The hands, turned: query blue, key orange and dashed. Drag one, or turn it by the arrow keys." });
  return { node: element("div", {}, legend, node), show };
}

function clock(pair, turn, choose) {
  const hands = HANDS.map(([x, , name]) => hand(x, `${name}'s hand of pair ${pair}`, (angle) => turn(x, angle)));
  const face = svg("svg", {
    viewBox: "-60 -60 120 120", class: "tb-rope-clock", role: "group", "aria-label": `hands of pair ${pair}`,
  }, svg("circle", { r: 50, class: "tb-rope-face" }), ...hands.map((it) => it.node));
  const pressed = button(`pair ${pair}`, choose, { title: "show this pair alone in the map" });
  const caption = element("span", { class: "tb-rope-caption" });
  const node = element("div", { class: "tb-rope-pair" }, face, pressed, caption);
  return { node, show({ tips, said, chosen }) {
    hands.forEach((it, i) => it.show(tips[i]));
    pressed.setAttribute("aria-pressed", String(chosen));
    caption.textContent = said.join("\n");
  } };
}

function hand(x, label, turn) {
  const [line, reach] = [svg("line", { class: "tb-rope-line" }), svg("line", { class: "tb-rope-reach" })];
  const tip = svg("path", { d: "M0 0 L-9 -5 L-9 5 Z", class: "tb-rope-tip" });
  const node = svg("g", { class: `tb-rope-hand tb-rope-${x}`, role: "slider", tabindex: "0", "aria-label": label,
    "aria-valuemin": -180, "aria-valuemax": 180 }, reach, line, tip);
  let angle = 0;
  node.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -STEP, ArrowDown: -STEP, ArrowRight: STEP, ArrowUp: STEP, Home: -angle }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    turn(by);
  });
  node.addEventListener("pointerdown", (event) => {
    node.setPointerCapture(event.pointerId);
    node.focus();
    event.preventDefault();
  });
  node.addEventListener("pointermove", (event) => {
    if (!node.hasPointerCapture(event.pointerId)) return;
    const box = node.ownerSVGElement.getBoundingClientRect();
    const [dx, dy] = [event.clientX - box.left - box.width / 2, box.top + box.height / 2 - event.clientY];
    turn(Math.atan2(dy, dx) - angle);
  });
  return { node, show([right, up]) {
    angle = Math.atan2(up, right);
    const [x2, y2] = [48 * right, -48 * up];
    for (const it of [line, reach]) attributes(it, { x2, y2 });
    const degrees = Math.round((angle * 180) / Math.PI);
    tip.setAttribute("transform", `translate(${x2} ${y2}) rotate(${(-angle * 180) / Math.PI})`);
    attributes(node, { "aria-valuenow": degrees, "aria-valuetext": `${degrees} degrees` });
  } };
}

function attributes(node, values) {
  for (const [name, value] of Object.entries(values)) node.setAttribute(name, value);
}

const [LEFT, TOP, SQUARE] = [46, 46, 320]; // the map, in units of its picture

/** The score for every query position (down) and key position (across); press a place to go there. */
function map(model, T) {
  const side = SQUARE / T;
  const { picture, cells, diagonal, mark } = mapPicture(T, side);
  const go = ([m, n]) => { model.set("m", m); put(model, "n", n); };
  const place = (event) => {
    const box = picture.getBoundingClientRect();
    const scale = box.width / (LEFT + SQUARE + 4);
    const [down, across] = [(event.clientY - box.top) / scale - TOP, (event.clientX - box.left) / scale - LEFT];
    return [clip(down / side, T), clip(across / side, T)];
  };
  picture.addEventListener("click", (event) => go(place(event)));
  picture.addEventListener("pointermove", (event) => { if (event.buttons & 1) go(place(event)); });
  picture.addEventListener("keydown", (event) => {
    const next = stepped(event.key, clip(model.get("m"), T), clip(model.get("n"), T), T, T);
    if (!next) return;
    event.preventDefault();
    go(next);
  });
  const [title, scale] = [element("p", { class: "tb-rope-title" }), element("p", { class: "tb-rope-scale" })];
  function show({ m, n, pair }, scores) {
    const flat = scores.flat();
    const most = Math.max(...flat.map(Math.abs));
    flat.forEach((value, i) => { cells[i].style.fill = signed(value, most); });
    const [first, last] = [Math.max(0, m - n), T - 1 - Math.max(0, n - m)];
    const middle = (at) => side * (at + 0.5);
    attributes(diagonal, { x1: LEFT + middle(first + n - m), y1: TOP + middle(first) });
    attributes(diagonal, { x2: LEFT + middle(last + n - m), y2: TOP + middle(last) });
    attributes(mark, { x: LEFT + side * n, y: TOP + side * m });
    title.textContent = `The score by position, ${pair < 0 ? "all pairs together" : `pair ${pair} alone`}`;
    scale.replaceChildren(`orange ${decimal(-most)} `, element("span", { "aria-hidden": "true" }), ` blue ${decimal(most)}`);
  }
  return { node: element("div", {}, title, picture, scale), show };
}

function mapPicture(T, side) {
  const cells = Array.from({ length: T * T }, (_, i) => svg("rect", {
    x: LEFT + side * (i % T), y: TOP + side * Math.floor(i / T), width: side + 0.2, height: side + 0.2 }));
  const diagonal = svg("line", { class: "tb-rope-diagonal" });
  const mark = svg("rect", { class: "tb-rope-mark", width: side, height: side });
  const ticks = Array.from({ length: Math.ceil(T / 8) }, (_, i) => 8 * i).flatMap((t) => [
    svg("text", { x: LEFT + side * (t + 0.5), y: TOP - 7, "text-anchor": "middle", text: t }),
    svg("text", { x: LEFT - 6, y: TOP + side * (t + 0.5) + 5, "text-anchor": "end", text: t })]);
  const axis = (text, x, more) => svg("text", { x, y: 13, "text-anchor": "middle", text, ...more });
  const picture = svg("svg", {
    viewBox: `0 0 ${LEFT + SQUARE + 4} ${TOP + SQUARE + 4}`, class: "tb-rope-map", tabindex: "0", role: "application",
    "aria-label": "Scores by position. The arrow keys move the query up and down, the key left and right.",
  }, ...cells, diagonal, mark, ...ticks, axis("key's position n", LEFT + SQUARE / 2),
  axis("query's position m", -TOP - SQUARE / 2, { transform: "rotate(-90)" }));
  return { picture, cells, diagonal, mark };
}

export default { render };
