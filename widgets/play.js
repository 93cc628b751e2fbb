// Steps through figures that were drawn beforehand, one for each combination of choices.
import { choice, element, inWords, put, room, slider, watch } from "./shared.js";

function render({ model, el }) {
  const { root, say } = room(el, model, "play");
  const { controls, frames, listed } = model.get("data");
  const picture = element("img", { class: "tb-frame" });

  const choose = (which, option) => put(model, "chosen", model.get("chosen").with(which, option));
  const made = controls.map((control, which) => makeControl(control, (option) => choose(which, option)));
  root.append(element("div", { class: "tb-controls" }, ...made.map(({ node }) => node)), picture, inWords(listed).node);

  return watch(model, ["chosen"], () => {
    const chosen = model.get("chosen").map((option, which) => Math.min(Math.max(option, 0), controls[which].options.length - 1));
    const at = chosen.reduce((sum, option, which) => sum * controls[which].options.length + option, 0);
    picture.src = frames[at].source;
    picture.alt = frames[at].alt;
    made.forEach(({ set }, which) => set(chosen[which]));
    say(frames[at].alt);
  });
}

function makeControl({ name, kind, options }, onInput) {
  if (kind === "list") {
    return choice({ label: name, options: options.map((words, index) => [index, words]), value: 0, onInput });
  }
  return slider({ label: name, min: 0, max: options.length - 1, value: 0, show: (index) => options[index], onInput });
}

export default { render };
