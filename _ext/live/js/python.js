// The page's side of the worker: starts it, asks one run after another of it, ends it.

const here = new URL("./", import.meta.url);

const ANEW = "Python starts anew, without its variables: Run brings back what a cell needs.";
const STOPPED = `Stopped. ${ANEW}`;
const ENDED = `This code ended Python itself. ${ANEW}`;
const NOT_LOADED = "What this cell imports could not be loaded. Check the connection, then press Retry.";

/** What ended a run: the message is for the reader. */
export class Trouble extends Error {
  constructor(message, { retry = false, ...options } = {}) {
    super(message, options);
    this.retry = retry;
  }
}

/** Read the file that says where Pyodide is, and which build of the book this is; without a network, the kept one. */
async function findRuntime() {
  const address = new URL("runtime.json", here);
  const answer = await fetch(address, { cache: "no-cache" }).catch(() => fetch(address, { cache: "force-cache" }));
  if (!answer.ok) throw new Error(`runtime.json: ${answer.status}`);
  return answer.json();
}

/** One Python for the page. `listen` is called with what a run shows, `status` with words on what takes time. */
export class Python {
  #worker = null;
  #ready = null;
  #fail = () => {}; // rejects what is waited for: the start, or a run's answer
  #answered = () => {};
  #queue = Promise.resolve();
  #life = 0; // counts the stops: what waited before one does not run after it
  #ends = 0; // counts the ends: a start that was under way does not go on after one

  started = false;
  listen = () => {};
  status = () => {};

  /** Start, if it has not: resolves when Python can run. */
  start() {
    if (this.#ready) return this.#ready;
    const ready = this.#start().catch((error) => {
      if (this.#ready === ready) this.#end();
      throw error;
    });
    this.#ready = ready;
    return ready;
  }

  async #start() {
    let host = location.host;
    const ends = this.#ends;
    try {
      const runtime = await findRuntime();
      if (ends !== this.#ends) throw new Trouble(STOPPED);
      host = new URL(runtime.pyodide, here).host;
      this.#worker = new Worker(new URL(`worker.js?v=${runtime.version}`, here), { type: "module" });
      this.#worker.onmessage = ({ data }) => this.#hear(data);
      this.#worker.onerror = (event) => this.#fail(new Error(event.message));
      await this.#waitFor({ type: "start", runtime });
      this.started = true;
    } catch (error) {
      if (error instanceof Trouble) throw error;
      const text = `Python could not be loaded from ${host}. Check the connection, then press Retry.`;
      throw new Trouble(text, { cause: error, retry: true });
    }
  }

  #waitFor(message) {
    return new Promise((done, failed) => {
      this.#answered = done;
      this.#fail = failed;
      this.#worker.postMessage(message);
    });
  }

  #hear({ type, ...data }) {
    if (type === "shown") this.listen(data.shown);
    else if (type === "status") this.status(data.text);
    else if (type === "failed") this.#fail(data.loading ? new Trouble(NOT_LOADED, { retry: true }) : new Error(data.text));
    else this.#answered(data.answer);
  }

  /** Run what `make` returns when it is its turn, after the runs before it; resolves with the worker's answer. */
  run(make) {
    const life = this.#life;
    const turn = this.#queue.then(async () => {
      if (life !== this.#life) throw new Trouble(STOPPED);
      await this.start();
      return this.#waitFor({ type: "run", request: JSON.stringify(make()) }).catch((error) => {
        if (error instanceof Trouble) throw error;
        this.#renew(); // os._exit, or no memory is left: this Python answers no more
        throw new Trouble(ENDED, { cause: error });
      });
    });
    this.#queue = turn.catch(() => {});
    return turn;
  }

  /** End what runs, and with it all variables, and start anew in the background. */
  stop() {
    this.#life += 1;
    this.#fail(new Trouble(STOPPED));
    this.#renew();
  }

  #renew() {
    this.#end();
    this.start().catch(() => {}); // the next run says what is wrong
  }

  #end() {
    this.#ends += 1;
    this.#worker?.terminate();
    this.#worker = null;
    this.#ready = null;
    this.started = false;
  }
}
