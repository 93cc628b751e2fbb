// Sets formulas with KaTeX: for each line of JSON that it reads, {latex, block}, it writes one, {html} or {error}.

import { createInterface } from "node:readline";

import katex from "katex";

for await (const line of createInterface({ input: process.stdin })) {
  const { latex, block } = JSON.parse(line);
  let answer;
  try {
    // "error": what LaTeX would not take, KaTeX refuses here, too.
    answer = { html: katex.renderToString(latex, { displayMode: block, strict: "error" }) };
  } catch (error) {
    answer = { error: error.message };
  }
  console.log(JSON.stringify(answer));
}
