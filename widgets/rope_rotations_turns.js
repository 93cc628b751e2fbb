// RoPE without the picture: turns, scores and layouts, as scratch.rope's.

export const LAYOUTS = ["interleaved", "half"];

/** Radians that each pair turns at each position. Book: eq-rope-angle. */
export function speeds(width, base) {
  return Array.from({ length: width / 2 }, (_, i) => base ** ((-2 * i) / width));
}

/** The two entries that make up each pair. Book: eq-rope-layouts. */
export function entries(width, layout) {
  return Array.from({ length: width / 2 }, (_, i) => (layout === "interleaved" ? [2 * i, 2 * i + 1] : [i, i + width / 2]));
}

/** A vector turned as at a position (a negative one turns back). Book: eq-rope. */
export function turned(x, position, base, layout) {
  const out = [...x];
  const speed = speeds(x.length, base);
  entries(x.length, layout).forEach(([a, b], i) => {
    const [cos, sin] = [Math.cos(position * speed[i]), Math.sin(position * speed[i])];
    out[a] = x[a] * cos - x[b] * sin;
    out[b] = x[a] * sin + x[b] * cos;
  });
  return out;
}

/** What each pair adds to the score of a query at m and a key at n. */
export function pairScores({ q, k, m, n, base, layout }) {
  const [tq, tk] = [turned(q, m, base, layout), turned(k, n, base, layout)];
  return entries(q.length, layout).map(([a, b]) => tq[a] * tk[a] + tq[b] * tk[b]);
}

/** Scores [T, T] of a query at each m (rows) and a key at each n, of one pair or (-1) of all. */
export function scoreMap({ q, k, base, layout, pair }, T) {
  const kept = entries(q.length, layout).filter((_, i) => pair < 0 || i === pair).flat();
  const [rows, columns] = [q, k].map((x) => Array.from({ length: T }, (_, t) => turned(x, t, base, layout)));
  return rows.map((a) => columns.map((b) => kept.reduce((sum, entry) => sum + a[entry] * b[entry], 0)));
}

/** The entries in the order that layout `to` wants them, from the other layout's. */
export function reordered(x, to) {
  const out = [...x];
  const from = entries(x.length, to === "half" ? "interleaved" : "half");
  entries(x.length, to).forEach((pair, i) => pair.forEach((entry, side) => { out[entry] = x[from[i][side]]; }));
  return out;
}

/** A vector with one pair's hand turned by an angle. */
export function withHand(x, pair, angle, layout) {
  const out = [...x];
  const [a, b] = entries(x.length, layout)[pair];
  out[a] = x[a] * Math.cos(angle) - x[b] * Math.sin(angle);
  out[b] = x[a] * Math.sin(angle) + x[b] * Math.cos(angle);
  return out;
}

/** What is wrong with values that were set from Python, in words, or "". */
export function unfit({ q, k, base, layout }) {
  const even = q.length === k.length && q.length % 2 === 0 && q.length > 0;
  if (!even) return `q has ${q.length} numbers and k ${k.length}, expected one even number for both.`;
  if (![...q, ...k].every(Number.isFinite)) return "q or k holds what is no finite number.";
  if (!(base > 0 && base < Infinity)) return `base=${base}, expected a positive number.`;
  return LAYOUTS.includes(layout) ? "" : `layout=${layout}, expected interleaved or half.`;
}
