// The page's Python: one Pyodide in a worker of its own, so that an endless loop can be ended. Entry of a bundle.

const here = new URL("./", self.location.href);
const QUIET = { messageCallback() {} };
const SIZES = { matplotlib: "Loading Matplotlib: 10 MB, once…", names: "Loading the surnames: 0.7 MB, once…" };

let python;
let page;
let session;
let version;
const loaded = new Set();

const say = (type, rest) => self.postMessage({ type, ...rest });

async function archive(name) {
  const answer = await fetch(new URL(`${name}.zip?v=${version}`, here));
  if (!answer.ok) throw new Error(`${name}.zip: ${answer.status}`);
  return answer.arrayBuffer();
}

async function start(runtime) {
  version = runtime.version;
  const base = new URL(runtime.pyodide, here).href;
  const course = archive("course");
  course.catch(() => {}); // reported where it is awaited
  const { loadPyodide } = await import(`${base}pyodide.mjs`);
  python = await loadPyodide({ indexURL: base, packages: ["numpy"], env: { MPLBACKEND: "agg" } });
  python.unpackArchive(await course, "zip", { extractDir: "/course" });
  python.runPython("import sys; sys.path.insert(0, '/course')");
  page = python.pyimport("live.page");
  session = page.Worker((message) => say("shown", { shown: JSON.parse(message) }));
}

async function load(request) {
  const asked = JSON.parse(session.needs(request));
  for (const name of asked.packages.filter((one) => !loaded.has(one))) {
    say("status", { text: SIZES[name] });
    if (name === "names") python.unpackArchive(await archive(name), "zip", { extractDir: "/course" });
    else await python.loadPackage(name, QUIET);
    if (name === "matplotlib") page.prepare_matplotlib();
    loaded.add(name);
  }
  await python.loadPackagesFromImports(asked.source, QUIET);
}

async function run(request) {
  try {
    await load(request);
  } catch (error) {
    say("failed", { text: String(error), loading: true });
    return;
  }
  say("status", { text: "Running…" });
  say("done", { answer: JSON.parse(session.run(request)) });
}

self.onmessage = async ({ data }) => {
  try {
    if (data.type === "start") {
      await start(data.runtime);
      say("ready");
    } else {
      await run(data.request);
    }
  } catch (error) {
    say("failed", { text: String(error.message ?? error) });
  }
};
