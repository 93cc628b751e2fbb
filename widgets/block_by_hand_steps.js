// The block by hand without its picture: the same arithmetic as scratch's, each entry spelled out, and what is seen in words.
import { decimal } from "./shared.js";

export const SHOWN = 0.0005; // a smaller change is not seen in three decimals
const sum = (row) => row.reduce((total, value) => total + value, 0);
const dot = (a, b) => sum(a.map((value, i) => value * b[i]));
const column = (matrix, j) => matrix.map((row) => row[j]);
export const each = (matrix, act) => matrix.map((row, i) => row.map((value, j) => act(value, i, j)));
const gelu = (z) => z / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (z + 0.044715 * z * z * z)));

/** The mean that a norm takes from a row (none in RMSNorm), and the mean square of what is left. */
function moments(row, kind) {
  const mean = kind === "layernorm" ? sum(row) / row.length : 0;
  return [mean, sum(row.map((value) => (value - mean) ** 2)) / row.length];
}

function norm(x, gain, bias, { norm: kind, eps }) {
  return x.map((row) => {
    const [mean, square] = moments(row, kind);
    const shift = (j) => (kind === "layernorm" ? bias[0][j] : 0);
    return row.map((value, j) => ((value - mean) / Math.sqrt(square + eps)) * gain[0][j] + shift(j));
  });
}

function softmax(row) {
  const top = Math.max(...row);
  const exponentials = row.map((value) => (top === -Infinity ? 0 : Math.exp(value - top)));
  return exponentials.map((value) => value / (sum(exponentials) || 1));
}

const COMPUTE = {
  given: (x) => x,
  norm,
  product: (a, b) => a.map((row) => b[0].map((_, j) => dot(row, column(b, j)))),
  scores: (q, k) => q.map((query) => k.map((key) => dot(query, key) / Math.sqrt(key.length))),
  mask: (s) => each(s, (value, i, j) => (j > i ? -Infinity : value)),
  softmax: (m) => m.map(softmax),
  add: (a, b) => each(a, (value, i, j) => value + b[i][j]),
  gelu: (h) => each(h, gelu),
};

/**
 * Every array of the block by name, from x and the weights. `options` are norm, eps and overrides: {"q,0,2": 1.5} puts
 * 1.5 into row 0, column 2 of q, and what follows goes on with it. `computed` holds what stood there before.
 */
export function run(steps, x, weights, { overrides = {}, ...options }) {
  const values = { ...weights, x };
  const computed = {};
  for (const { name, op, from } of steps) {
    computed[name] = op === "given" ? values[name] : COMPUTE[op](...from.map((it) => values[it]), options);
    values[name] = each(computed[name], (value, i, j) => overrides[`${name},${i},${j}`] ?? value);
  }
  return { values, computed };
}

/** The x and the weights of a case: "times ten" (of row `row`), "last token", "no attention", or "" for neither. */
export function inCase(name, { x, weights, row }, other) {
  if (name === "times ten") x = x.map((it, i) => (i === row ? it.map((value) => 10 * value) : it));
  if (name === "last token") x = [...x.slice(0, -1), other.row];
  if (name === "no attention") weights = { ...weights, "attn.wo": each(weights["attn.wo"], () => 0) };
  return { x, weights };
}

/** For each row of two matrices, the largest absolute difference. */
export function differences(a, b) {
  return a.map((row, i) => Math.max(...row.map((value, j) => (value === b[i][j] ? 0 : Math.abs(value - b[i][j])))));
}

/** "=" is the same to the last bit, "≈" the same in three decimals, "≠" different. */
export function compared(size) {
  if (size === 0) return "=";
  return size < SHOWN ? "≈" : "≠";
}

/** A number in three decimals, or with an exponent where it is large. */
export function shown(value) {
  if (value === -Infinity) return "−∞";
  return Math.abs(value) < 1e5 ? decimal(value, 3) : value.toExponential(3).replace("-", "−").replace("e+", "e");
}

/** A number within a sum: no zeros at the end; three digits that count where it is small. */
function short(value) {
  const size = Math.abs(value);
  if (size < 1e-9) return "0";
  return size < 0.1 ? String(Number(value.toPrecision(3))).replace("-", "−") : shown(value).replace(/\.?0+$/, "");
}

const inside = (value) => (value < 0 ? `(${short(value)})` : short(value));
const products = (a, b) => a.map((value, i) => `${inside(value)}·${inside(b[i])}`).join(" + ");

const SPELL = {
  given: () => "It comes in, nothing is computed yet: x",
  norm(i, j, { norm: kind, eps }, x, gain, bias) {
    const [mean, square] = moments(x[i], kind);
    const top = kind === "layernorm" ? `(${short(x[i][j])} − ${inside(mean)})` : short(x[i][j]);
    const end = kind === "layernorm" ? ` + ${inside(bias[0][j])}` : "";
    const known = kind === "layernorm" ? `mean ${short(mean)}, variance ${short(square)}` : `mean square ${short(square)}`;
    return `${known}: ${top} / √(${short(square)} + ${eps}) · ${inside(gain[0][j])}${end}`;
  },
  product: (i, j, _, a, b) => products(a[i], column(b, j)),
  scores: (i, j, _, q, k) => `(${products(q[i], k[j])}) / √${k[j].length}`,
  mask: (i, j, _, s) => (j > i ? "A later token is hidden: m" : `Not a later token: ${short(s[i][j])} stays`),
  softmax(i, j, _, m) {
    const top = Math.max(...m[i]);
    const power = (value) => (value === -Infinity ? "0" : `e^${inside(value - top)}`);
    return `${power(m[i][j])} / (${m[i].map(power).join(" + ")}), after taking the largest, ${short(top)}, from all`;
  },
  add: (i, j, _, a, b) => `${short(a[i][j])} + ${inside(b[i][j])}`,
  gelu(i, j, _, h) {
    const z = h[i][j];
    return `½ · ${inside(z)} · (1 + tanh(0.798 · (${short(z)} + 0.0447 · ${inside(z)}³)))`;
  },
};

/** How entry [i, j] of a step comes about, as a line of arithmetic without its result. */
export function spelled(step, i, j, values, options) {
  return SPELL[step.op](i, j, options, ...step.from.map((name) => values[name]));
}

// Which entries of each operand go into entry [i, j]: (row, column, i, j).
const ROW = (r, c, i) => r === i;
const COLUMN = (r, c, i, j) => c === j;
const SAME = (r, c, i, j) => r === i && c === j;
export const USED = {
  given: [], norm: [ROW, COLUMN, COLUMN], product: [ROW, COLUMN], scores: [ROW, (r, c, i, j) => r === j],
  mask: [SAME], softmax: [ROW], add: [SAME, SAME], gelu: [SAME],
};

export const list = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
const length = (row) => Math.hypot(...row);
const largest = (numbers) => numbers.indexOf(Math.max(...numbers));
const rowsOf = (names) => `${names.length > 1 ? "rows" : "row"} ${list(names)}`;
const best = (names, numbers) => names.filter((_, t) => numbers[t] > Math.max(...numbers) - SHOWN);
const span = (numbers) => {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)].map(shown);
  return low === high ? low : `${low} to ${high}`;
};

const SEEN = {
  given({ x }, _, tokens) {
    const lengths = x.map(length);
    return `The greatest length is ${shown(Math.max(...lengths))} (${rowsOf(best(tokens, lengths))}).`;
  },
  norm(values, { name }) {
    const means = values[name].map((row) => sum(row) / row.length);
    const sizes = values[name].map((row) => Math.sqrt(dot(row, row) / row.length));
    return `Mean of each row: ${span(means)}. Root mean square: ${span(sizes)}.`;
  },
  product(values, { name, label }, tokens) {
    const tops = values[name].map((row) => Math.max(...row));
    return `The largest number of ${label} is ${shown(Math.max(...tops))} (${rowsOf(best(tokens, tops))}).`;
  },
  scores({ s }, _, tokens) {
    const last = s.at(-1);
    return `The query of ${tokens.at(-1)} fits best with the key of ${list(best(tokens, last))}: ${shown(Math.max(...last))}.`;
  },
  mask({ m }) {
    const hidden = m.flat().filter((value) => value === -Infinity).length;
    const ahead = m.some((row, i) => row.slice(i + 1).some((value) => value > -Infinity));
    const so = ahead ? "a token looks ahead" : "no token looks at those after it";
    return `${hidden} of ${m.flat().length} scores are −∞: ${so}.`;
  },
  softmax({ p }, _, tokens) {
    const most = `Row ${tokens.at(-1)} looks most at ${list(best(tokens, p.at(-1)))}, with ${shown(Math.max(...p.at(-1)))}.`;
    return `Row ${tokens[0]} gives itself ${shown(p[0][0])}. ${most} Each row adds up to ${span(p.map(sum))}.`;
  },
  add(values, { from: [stream, added] }, tokens) {
    const moved = values[added].map(length);
    const most = largest(moved);
    const [before, by] = [values[stream], values[added]].map((rows) => shown(length(rows[most])));
    return `The longest row that is added has length ${by} (${rowsOf(best(tokens, moved))}); it meets one of length ${before}.`;
  },
  gelu({ h, c }) {
    const below = h.flat().flatMap((value, k) => (value < 0 ? [c.flat()[k]] : []));
    return `${below.length} of ${h.flat().length} numbers were negative.${below.length ? ` They are now ${span(below)}.` : ""}`;
  },
};

/** What there is to see in a step, in a sentence computed from its numbers. */
export function seen(step, values, tokens) {
  return SEEN[step.op](values, step, tokens);
}

/** What a case changes in one step, in a sentence. */
export function change(step, base, changed, tokens) {
  const rows = differences(base[step.name], changed[step.name]);
  const moved = tokens.filter((_, t) => compared(rows[t]) === "≠");
  const most = Math.max(...rows);
  if (moved.length) return `${step.label} differs in ${rowsOf(moved)}, by at most ${shown(most)}.`;
  const how = most ? `in three decimals: the largest change is ${most.toExponential(0)}` : "to the last bit";
  return `${step.label} is the same ${how}.`;
}

/** What a case changes and what not, step by step and row by row, in sentences computed from both runs. */
export function verdict(name, steps, base, changed, tokens) {
  const marks = steps.map((step) => differences(base[step.name], changed[step.name]));
  const which = (mark) => list(steps.filter((_, k) => compared(Math.max(...marks[k])) === mark).map((step) => step.label));
  return [
    change(steps.at(-1), base, changed, tokens),
    which("=") && `The same to the last bit: ${which("=")}.`,
    which("≈") && `The same in three decimals: ${which("≈")}.`,
    because(name, steps, marks, changed),
  ].filter(Boolean).join(" ");
}

function because(name, steps, marks, changed) {
  const of = (wanted) => marks[steps.findIndex((step) => step.name === wanted)];
  const earlier = (wanted) => of(wanted).slice(0, -1).some((size) => size > 0);
  if (name === "times ten" && Math.max(...of("n1")) < SHOWN) {
    return "The norm takes the factor away, all but a trace of ε, so attention answers as before. "
      + "The stream itself keeps its size.";
  }
  if (name === "last token" && earlier("s") && !earlier("m") && !earlier("y")) {
    return "The rows before the last meet the new key in the scores s. The mask hides it: from m on they do not change at all.";
  }
  if (name === "no attention" && changed.a.flat().every((value) => value === 0)) {
    const first = of("y")[0] < SHOWN ? "" : " The first row changes too: it had listened to itself.";
    return `Each row of y now comes from its own row of x alone.${first}`;
  }
  return "";
}

/** One sentence that says what is wrong with what Python set, or "". */
export function unfit({ x, weights, overrides, norm: kind }, data) {
  const wrong = (name, value, { length: rows, 0: { length: columns } }) => {
    const fits = value?.length === rows && value.every((row) => row?.length === columns && row.every(Number.isFinite));
    return fits ? "" : `${name} must be ${rows} × ${columns} finite numbers, a list of rows.`;
  };
  const shapes = Object.fromEntries(data.steps.map((step) => [step.name, step.axes.map((axis) => data.sizes[axis])]));
  const known = ([key, value]) => {
    const [name, i, j] = key.split(",");
    const within = (at, size) => /^\d+$/.test(at) && Number(at) < size;
    return shapes[name] && within(i, shapes[name][0]) && within(j, shapes[name][1]) && Number.isFinite(value);
  };
  const lost = Object.entries(overrides).find((entry) => !known(entry));
  return wrong("x", x, data.x)
    || Object.keys(data.weights).map((name) => wrong(`weights["${name}"]`, weights[name], data.weights[name])).find(Boolean)
    || (lost ? `overrides has "${lost[0]}": expected a step, a row and a column such as "q,0,2", and a number.` : "")
    || (["layernorm", "rmsnorm"].includes(kind) ? "" : `norm is "${kind}", expected "layernorm" or "rmsnorm".`);
}
