// The counter: a model's parameters, operations, bytes and least time of a step, in whole numbers as scratch.account's.

import {
  button, choice, decimal, element, grouped, inWords, newId, numberField, put, room, table, toggle, watch,
} from "./shared.js";
import { CHOICES, about, bills, completed, mistake, stepSeconds, total, unfit } from "./counter_bills.js";

const inBytes = (value) => about(value, [" bytes", " kB", " MB", " GB", " TB", " PB", " EB"]);
const rounded = (value, digits = 4) => Number(value.toPrecision(digits));
const shareOf = (part, whole) => {
  const share = (100 * Number(part)) / Number(whole || 1n);
  return share > 0 && share < 0.5 ? "<1%" : `${decimal(share, 0)}%`;
};
const times = (now, then) => {
  if (now === then) return "the same";
  return then ? `× ${rounded(Number(now) / Number(then), 3)}` : "no longer 0";
};
const seconds = (s) => (s < 1 ? `${rounded(s * 1e3)} ms` : `${rounded(s)} s`);

const FIELDS = [
  ["vocab_size", "V"], ["d_model", "D"], ["n_layers", "L"], ["n_heads", "H"], ["n_kv_heads", "K"], ["d_head", "dₕ"],
  ["d_ff", "F"], ["max_seq", "Tₘₐₓ"],
];
const LEFT_OUT = { n_kv_heads: "H", d_head: "D / H" };
const WORK = ["T", "batch", "value_bytes", "terabytes", "teraflops", "visible", "backward"];
const HUES = {
  attention: "attention", projections: "attention", keys: "attention", "feed-forward": "feed", "scores and mixing": "scores",
  "activations, scores": "scores", cache: "attention", values: "attention",
};

/** What is typed: a whole or broken number where it is one, null where nothing is, else the text itself. */
function typed(text) {
  const plain = text.trim().replace(/[,\u2009\u202f_]/g, "");
  return plain === "" ? null : Number.isFinite(Number(plain)) ? Number(plain) : plain;
}

function render({ model, el }) {
  const { root, say } = room(el, model, "counter");
  const settings = controls(model);
  const error = element("p", { class: "tb-counter-error", id: settings.errorId, role: "alert" });
  const results = element("div", { class: "tb-counter-bills" });
  const lesson = element("p", { class: "tb-counter-lesson" });
  const words = inWords(model.get("words"));
  let start;
  const pin = button("Compare from here on", () => {
    start = undefined;
    update();
  });
  root.append(
    element("p", { text: "Predict: the text becomes twice as long. Which of the five bills doubles, and which stays as it is? " +
      "Then double T." }),
    settings.node, error, lesson, results, pin, words.node,
  );
  function update() {
    const config = model.get("config");
    const work = Object.fromEntries(WORK.map((name) => [name, model.get(name)]));
    const wrong = mistake(config) || unfit(work);
    settings.show(wrong);
    error.textContent = wrong && `Nothing to count yet: ${wrong}.`;
    for (const node of [lesson, results, pin, words.node]) node.hidden = Boolean(wrong);
    if (wrong) return;
    const count = bills(config, work);
    const now = { count, time: stepSeconds(count, work), work, full: completed(config) };
    start ??= now;
    const beyond = work.T > config.max_seq ? ` T is beyond the longest text, ${grouped(config.max_seq)}.` : "";
    const said = compared(now, start) + beyond;
    lesson.textContent = said;
    words.set(element("p", { text: said }), inTable(now));
    results.replaceChildren(...drawn(now));
    say(said);
  }
  const stop = watch(model, ["config", ...WORK], update);
  return () => { stop(); root.remove(); };
}

function compared(now, start) {
  const rows = ["parameters", now.work.visible ? "visible" : "operations", "cache", "training"];
  const all = (it) => [...rows.map((row) => total(it.count[row])), it.time.least];
  const names = ["parameters", "a token's operations", "the cache", "training's memory", "the least time of a step"];
  const [after, before] = [all(now), all(start)];
  const changed = names.map((name, i) => `${name} ${times(after[i], before[i])}`);
  if (after.some((value, i) => value !== before[i])) return `Compared with the start: ${changed.join(", ")}.`;
  const largest = (bill) => Object.keys(bill).reduce((a, b) => (bill[b] > bill[a] ? b : a));
  const [most, busiest] = rows.slice(0, 2).map((row) => largest(now.count[row]));
  return `Most parameters: ${most}, ${shareOf(now.count.parameters[most], total(now.count.parameters))}. ` +
    `Most operations: ${busiest}, ${shareOf(now.count[rows[1]][busiest], total(now.count[rows[1]]))}.`;
}

function drawn({ count, time, work, full }) {
  const passes = work.backward ? 3n : 1n;
  const chosen = work.visible ? count.visible : count.operations;
  const operations = Object.fromEntries(Object.entries(chosen).map(([part, value]) => [part, passes * value]));
  const gpt = full.ffn === "gelu" && full.d_ff === 4 * full.d_model;
  const group = full.n_heads / full.n_kv_heads;
  const token = total(count.cache) / BigInt(work.T) / BigInt(work.batch);
  const [sum, kept] = [total(count.parameters), total(count.training)];
  return [
    bill("Parameters", `${grouped(sum)}`, count.parameters, sum < 1000n ? "" : `About ${about(sum)}.`),
    bill(`Operations of a token, ${work.backward ? "forward and backward" : "forward"}`, grouped(total(operations)), operations,
      `${work.visible ? "Visible pairs" : "All T × T pairs"}, two operations for each multiply-add.`,
      conventions(count, work, passes)),
    bill("Key/value cache", `${grouped(total(count.cache))} bytes`, count.cache,
      `${inBytes(total(count.cache))}; a token leaves ${grouped(token)} bytes. ` +
      `Each of ${grouped(full.n_kv_heads)} key/value heads serves ${grouped(group)} of ${grouped(full.n_heads)} query heads.`),
    bill("Memory for training", `${grouped(kept)} bytes`, count.training,
      `${inBytes(kept)}: 16 bytes a parameter in mixed precision, logits in 32 bits, and activations by the formula ` +
      `for a 16-bit GPT block with dropout${gpt ? "" : ", which this block is not: a rough guide"}.`),
    bill("A step of decoding reads", `${grouped(total(count.step))} bytes`, count.step,
      `Reading weights takes ${seconds(time.weights)}, reading caches ${seconds(time.cache)}, computing ${seconds(time.work)}. ` +
      `So a step takes at least ${seconds(time.least)}: at most ${about(rounded(work.batch / time.least))} tokens a second.`),
  ];
}

function bill(title, sum, parts, note, ...more) {
  const whole = total(parts);
  const rows = Object.entries(parts).map(([part, value]) => element("li", {},
    element("span", { text: part }), " ",
    element("span", { class: "tb-counter-number", text: grouped(value) }), " ",
    element("span", { class: "tb-counter-share", text: shareOf(value, whole) }),
    element("span", { class: `tb-counter-bar tb-counter-${HUES[part] ?? "rest"}`, "aria-hidden": "true",
      style: `--share: ${whole ? Number((value * 100000n) / whole) / 1000 : 0}%` })));
  return element("section", { class: "tb-counter-bill" },
    element("p", { class: "tb-counter-title" },
      element("strong", { text: title }), " ", element("span", { class: "tb-counter-number", text: sum })),
    element("ul", {}, ...rows), element("p", { class: "tb-counter-note", text: note }), ...more);
}

function conventions(count, work, passes) {
  const all = passes * total(count.operations);
  const rows = [
    ["all", all],
    ["visible", passes * total(count.visible)],
    [`${2n * passes}N`, 2n * passes * total(count.parameters)],
  ];
  const head = ["pairs", "a token", `${grouped(work.T)} tokens`, "share"];
  return element("div", { class: "tb-scroll", tabindex: "0", role: "group", "aria-label": "The conventions compared" },
    table("Which pairs are counted", head, rows.map(([name, value]) => (
      [name, grouped(value), grouped(value * BigInt(work.T)), shareOf(value, all)]))));
}

function inTable({ count, time }) {
  const names = {
    parameters: "parameters", operations: "operations of a token, all pairs", visible: "operations of a token, visible pairs",
    cache: "bytes of the key/value cache", training: "bytes in training", step: "bytes read for each step of decoding",
  };
  const rows = Object.entries(names).map(([name, label]) => [label, grouped(total(count[name]))]);
  return table("All bills", ["bill", "in total"], [...rows, ["least time of a step", seconds(time.least)]]);
}

function controls(model) {
  const errorId = newId();
  const presets = model.get("data").presets;
  const same = (a, b) => Object.keys(b).every((name) => completed(a)[name] === completed(b)[name]);
  const change = (name, value) => put(model, "config", { ...model.get("config"), [name]: value });
  const preset = choice({
    label: "Model", value: "", options: [...presets.map(({ name }) => [name, name]), ["", "your own"]],
    onInput: (name) => {
      const { config } = presets.find((it) => it.name === name) ?? {};
      if (!config) return settings.show(mistake(model.get("config")));
      model.set("T", config.max_seq); // as in the chapter: its longest text
      put(model, "config", { ...config });
    },
  });
  const fields = FIELDS.map(([name, letter]) => {
    const id = newId();
    const input = element("input", {
      id, type: "text", inputmode: "numeric", autocomplete: "off", placeholder: LEFT_OUT[name], "aria-describedby": errorId,
      oninput: () => change(name, typed(input.value)),
    });
    const label = element("label", { for: id, text: `${name} (${letter})` });
    return { name, input, node: element("div", { class: "tb-control" }, label, input) };
  });
  const lists = Object.entries(CHOICES).map(([name, allowed]) => ({ name, ...choice({
    label: name, options: allowed.map((it) => [it, it]), value: allowed[0], onInput: (value) => change(name, value),
  }) }));
  const checks = [["tied", "tied head"], ["bias", "biases"]].map(([name, label]) => (
    { name, ...toggle({ label, value: false, onInput: (value) => change(name, value) }) }));
  const task = workControls(model);
  const node = element("div", {},
    element("div", { class: "tb-controls tb-counter-fields" }, preset.node, ...task.map((it) => it.node)),
    element("details", { class: "tb-details", open: true }, element("summary", { text: "Its configuration" }),
      element("div", { class: "tb-controls tb-counter-fields" }, ...[...fields, ...lists, ...checks].map((it) => it.node))));
  const settings = { node, errorId, show(wrong) {
    const config = model.get("config");
    preset.set(presets.find((it) => same(config, it.config))?.name ?? "");
    for (const { name, input } of fields) {
      if (document.activeElement !== input || typed(input.value) !== config[name]) input.value = config[name] ?? "";
      input.setAttribute("aria-invalid", String(wrong.startsWith(`${name}=`)));
    }
    for (const it of [...lists, ...checks]) it.set(config[it.name]);
    for (const it of task) it.set(model.get(it.name));
  } };
  return settings;
}

function workControls(model) {
  const number = (name, label, options) => (
    { name, ...numberField({ label, value: model.get(name), ...options, onInput: (value) => put(model, name, value) }) });
  const speed = { min: 1e-6, max: 1e9 };
  const whole = { min: 1, max: Number.MAX_SAFE_INTEGER, whole: true };
  const check = (name, label) => (
    { name, ...toggle({ label, value: model.get(name), onInput: (value) => put(model, name, value) }) });
  const sizes = choice({
    label: "Bytes a value", value: model.get("value_bytes"), options: [1, 2, 4].map((size) => [size, String(size)]),
    onInput: (value) => put(model, "value_bytes", value),
  });
  return [
    number("T", "Tokens T", whole), number("batch", "Sequences B", whole), { name: "value_bytes", ...sizes },
    number("terabytes", "Memory, TB a second", speed), number("teraflops", "Compute, TFLOP a second", speed),
    check("visible", "only visible pairs"), check("backward", "with backward"),
  ];
}

export default { render };
