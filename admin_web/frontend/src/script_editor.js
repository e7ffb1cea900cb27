// Replaces a script's text area with an editor, in a shadow root: there its styles are adopted style
// sheets, as the content security policy allows no style elements.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

// Each is loaded when a script in it is opened; until then the text has no colours.
const LANGUAGES = {
  shell: async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/shell")).shell),
  python: async () => (await import("@codemirror/lang-python")).python(),
  nodejs: async () => (await import("@codemirror/lang-javascript")).javascript(),
  php: async () => (await import("@codemirror/lang-php")).php(),
  powershell: async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/powershell")).powerShell),
  groovy: async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/groovy")).groovy),
};

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.atom, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment, tags.meta], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.standard(tags.variableName), tags.className, tags.definition(tags.variableName)], color: "var(--code-name)" },
]);

const LOOKS = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "13px", height: "clamp(260px, 58vh, 900px)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--quiet)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent)" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)" },
});

export function openEditor(area) {
  const form = area.form;
  const host = document.createElement("div");
  host.className = "script-editor";
  area.after(host);
  const root = host.attachShadow({ mode: "open" });
  const language = new Compartment();
  const original = area.defaultValue;
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        syntaxHighlighting(COLOURS),
        language.of([]),
        EditorView.updateListener.of((update) => update.docChanged && note()),
        EditorState.readOnly.of(area.readOnly),
        EditorState.tabSize.of(4),
        EditorView.contentAttributes.of({ tabindex: "0", "aria-label": area.labels[0]?.textContent ?? "" }),
        keymap.of([{ key: "Mod-s", preventDefault: true, run: () => save(form, area) }, indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap]),
        LOOKS,
      ],
    }),
  });
  area.hidden = true;
  LANGUAGES[area.dataset.language]?.().then((found) => view.dispatch({ effects: language.reconfigure(found) }));
  // Drafts are kept of the form's own field.
  function note() {
    area.value = view.state.doc.toString();
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }
  let isSaving = false;
  form.addEventListener("submit", () => {
    area.value = view.state.doc.toString();
    isSaving = true;
  });
  addEventListener("beforeunload", (event) => {
    if (!isSaving && view.state.doc.toString() !== original) event.preventDefault();
  });
}

function save(form, area) {
  if (!area.readOnly) form.requestSubmit();
  return true;
}
