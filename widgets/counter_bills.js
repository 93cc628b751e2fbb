// What a model costs, without the picture: the same whole numbers as scratch.account's, and what is wrong with a model.

import { decimal, grouped } from "./shared.js";

const SIZES = ["vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "max_seq", "d_head"];
export const CHOICES = {
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
