// Searches the lines of a log that are on the page: marks matches, steps through them, and shows
// which lines were searched.

const MOST_MARKS = 2_000;
const PAUSE_MS = 150;

/** `tools` contains the field, the count and the two buttons; it is hidden without scripts. */
export function searchLog(box, tools, text) {
  const field = tools.querySelector("#log-search");
  const count = tools.querySelector("output");
  let marks = [];
  let here = -1;
  let timer = 0;

  function run(isMoving) {
    const wanted = field.value.toLowerCase();
    clear();
    if (wanted) for (const code of box.querySelectorAll("code")) if (marks.length < MOST_MARKS) mark(code, wanted);
    here = marks.length ? Math.min(Math.max(here, 0), marks.length - 1) : -1;
    show(isMoving);
  }

  // A line with colours has several text nodes; each is searched separately.
  function mark(code, wanted) {
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const node of texts) markText(node, wanted);
  }

  function markText(node, wanted) {
    const text = node.data;
    const low = text.toLowerCase();
    // Some letters have a different length in lower case, so positions would not match.
    if (low.length !== text.length || !low.includes(wanted)) return;
    const parts = [];
    let from = 0;
    for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
      const found = document.createElement("mark");
      found.textContent = text.slice(at, at + wanted.length);
      parts.push(text.slice(from, at), found);
      marks.push(found);
      from = at + wanted.length;
    }
    parts.push(text.slice(from));
    node.replaceWith(...parts);
  }

  function clear() {
    const parents = new Set(marks.map((found) => found.parentNode));
    for (const found of marks) found.replaceWith(found.textContent);
    for (const parent of parents) parent?.normalize();
    marks = [];
  }

  function show(isMoving) {
    marks.forEach((found, index) => found.classList.toggle("here", index === here));
    const all = marks.length >= MOST_MARKS ? `${MOST_MARKS}+` : marks.length;
    const found = marks.length ? `${here + 1} / ${all}` : text.textNone;
    count.textContent = field.value ? [found, searched()].filter(Boolean).join(" · ") : "";
    if (isMoving && here >= 0) marks[here].scrollIntoView({ block: "center" });
  }

  /** Return which lines were searched, as the page shows only a part of the log. */
  function searched() {
    const lines = box.querySelectorAll(".log-line[id]");
    if (!lines.length) return "";
    const [first, last] = [lines[0], lines[lines.length - 1]].map((line) => line.id.slice(1));
    return text.textSearched.replace("{first}", first).replace("{last}", last);
  }

  function step(by) {
    if (!marks.length) return;
    here = (here + by + marks.length) % marks.length;
    show(true);
  }

  tools.hidden = false;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => run(true), PAUSE_MS);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    step(event.shiftKey ? -1 : 1);
  });
  for (const button of tools.querySelectorAll("[data-log-step]")) button.addEventListener("click", () => step(Number(button.dataset.logStep)));
  return {
    refresh: () => field.value && run(false),
    get isActive() {
      return Boolean(field.value);
    },
  };
}
