// The editor of a cell: CodeMirror, fetched when the first one is opened. Entry of a bundle.

import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { pythonLanguage } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

const setMark = StateEffect.define();
const LINE = Decoration.line({ class: "live-error-line" });
const marks = StateField.define({
  create: () => Decoration.none,
  update(found, change) {
    const effect = change.effects.find((one) => one.is(setMark));
    if (effect) return effect.value;
    return change.docChanged ? Decoration.none : found;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Open an editor in `parent`: { code(), set(text), mark(line or null), focus() }. */
export function open({ parent, code, label, help, changed, run }) {
  const go = () => {
    run();
    return true;
  };
  const view = new EditorView({
    parent,
    doc: code,
    extensions: [
      lineNumbers(), history(), drawSelection(), bracketMatching(), indentOnInput(), indentUnit.of("    "),
      EditorState.tabSize.of(4), pythonLanguage, syntaxHighlighting(classHighlighter), marks,
      EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": help, spellcheck: "false", tabindex: "0" }),
      keymap.of([
        { key: "Shift-Enter", run: go },
        { key: "Mod-Enter", run: go },
        { key: "Tab", run: indentMore, shift: indentLess }, // after Escape, CodeMirror leaves Tab to the browser
        ...defaultKeymap,
        ...historyKeymap,
      ]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) changed(view.state.doc.toString());
      }),
    ],
  });
  parent.addEventListener("keydown", (event) => event.stopPropagation()); // Sphinx takes "/" as a search
  return {
    code: () => view.state.doc.toString(),
    set: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    focus: () => view.focus(),
    mark(line) {
      const there = line && line <= view.state.doc.lines;
      const value = there ? Decoration.set([LINE.range(view.state.doc.line(line).from)]) : Decoration.none;
      view.dispatch({ effects: setMark.of(value) });
    },
  };
}
