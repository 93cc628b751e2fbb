// The counter: a model's parameters, operations, bytes and least time of a step, in whole numbers as scratch.account's.

import {
  button, choice, decimal, element, grouped, inWords, newId, numberField, put, room, table, toggle, watch,
} from "./shared.js";

const SIZES = ["vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "max_seq", "d_head"];
const CHOICES = {
  norm: ["rmsnorm", "layernorm"],
  ffn: ["swiglu", "gelu"],
  pos: ["rope", "learned"],
  form: ["pre-norm", "post-norm", "parallel"],
};

/** The configuration with what may be left out filled in: K = H, and d_head = D / H rounded down. */
export function completed(config) {
  const { d_model: D, n_heads: H, n_kv_heads: K, d_head: Dh } = config;
  return { ...config, n_kv_heads: K ?? H, d_head: Dh ?? Math.floor(D / H) };
}

/** What is wrong with a configuration, in Config's own words, or "" if nothing is. */
export function mistake(config) {
  const full = completed(config);
  const quoted = (value) => (typeof value === "string" ? `'${value}'` : value == null ? "None" : String(value));
  for (const name of SIZES) {
    const value = full[name];
    if (Number.isInteger(value) && value > Number.MAX_SAFE_INTEGER) return `${name}=${value} is too large for this page`;
    if (!Number.isInteger(value) || value < (name === "n_layers" ? 0 : 1)) {
      return `${name}=${quoted(value)}, expected a positive integer`;
    }
  }
  const { d_model: D, n_heads: H, n_kv_heads: K } = full;
  if (H % K) return `n_heads=${H} is not divisible by n_kv_heads=${K}`;
  if (config.d_head == null && D % H) return `d_model=${D} is not divisible by n_heads=${H}; set d_head`;
  for (const [name, allowed] of Object.entries(CHOICES)) {
    if (!allowed.includes(config[name])) {
      return `${name}=${quoted(config[name])}, expected one of ${allowed.map(quoted).join(", ")}`;
    }
  }
  return config.pos === "rope" && full.d_head % 2 ? `RoPE needs an even head width, got ${full.d_head}` : "";
}

/** What is wrong with the work: scratch counts for at least one token of one sequence. */
export function unfit(work) {
  const wrong = ["T", "batch"].find((name) => !Number.isInteger(work[name]) || work[name] < 1);
  return wrong ? `${wrong}=${work[wrong]}, expected a positive integer` : "";
}

/** Every bill of a right configuration: { bill: { part: BigInt } }. */
export function bills(config, { T, batch, value_bytes }) {
  const full = completed(config);
  const [V, D, L, H, K, F, rows, Dh, t, B, bytes] = [...SIZES.map((name) => full[name]), T, batch, value_bytes].map(BigInt);
  const [q, kv, norm] = [H * Dh, K * Dh, config.norm === "layernorm" ? 2n * D : D];
  const norms = L * norm * (config.form === "parallel" ? 1n : 2n) + (config.form === "post-norm" ? 0n : norm);
  const projections = L * (2n * D * q + 2n * D * kv);
  const ffn = L * (config.ffn === "swiglu" ? 3n : 2n) * D * F;
  const ffnBias = config.bias && config.ffn === "gelu" ? L * (F + D) : 0n;
  const parameters = {
    "token table": V * D,
    positions: config.pos === "learned" ? rows * D : 0n,
    attention: projections + (config.bias ? L * (q + 2n * kv + D) : 0n),
    "feed-forward": ffn + ffnBias,
    norms,
    head: config.tied ? 0n : D * V,
  };
  const N = total(parameters);
  const operations = (scores) => (
    { projections: 2n * projections, "scores and mixing": scores, "feed-forward": 2n * ffn, head: 2n * D * V });
  const half = L * kv * t * B * bytes;
  return {
    parameters,
    operations: operations(4n * L * q * t),
    visible: operations(2n * L * q * (t + 1n)),
    cache: { keys: half, values: half },
    training: {
      weights: 2n * N,
      gradients: 2n * N,
      "copy of the weights": 4n * N,
      "Adam's averages": 8n * N,
      "activations, scores": 5n * L * B * H * t * t,
      "activations, all else": 34n * L * B * t * D,
      logits: 4n * B * t * V,
    },
    step: { weights: (N - (config.tied ? 0n : V * D) - parameters.positions) * bytes, cache: 2n * half },
  };
}

/** The sum of a bill. */
export function total(bill) {
  return Object.values(bill).reduce((sum, value) => sum + value, 0n);
}

/** Seconds that a step of decoding takes at least: reading weights, reading caches, computing, and the bound. */
export function stepSeconds(count, { batch, terabytes, teraflops }) {
  const [weights, cache] = [count.step.weights, count.step.cache].map((size) => Number(size) / (terabytes * 1e12));
  const work = (batch * Number(total(count.operations))) / (teraflops * 1e12);
  return { weights, cache, work, least: Math.max(weights + cache, work) };
}

/** A whole number in words of size: 124.4 million. */
export function about(value, units = ["", " thousand", " million", " billion", " trillion", " quadrillion"]) {
  let power = 0;
  let size = Number(value);
  for (; size >= 999.95 && power < units.length - 1; power += 1) size /= 1000;
  return `${power ? grouped(decimal(size, 1)) : size}${units[power]}`;
}

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
    words.set("");
    words.node.lastChild.append(element("p", { text: said }), inTable(now));
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
    number("terabytes", "TB a second", speed), number("teraflops", "TeraFLOP a second", speed),
    check("visible", "visible pairs"), check("backward", "with backward"),
  ];
}

export default { render };
