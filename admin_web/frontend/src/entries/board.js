// Keys in the list of jobs in trouble, while the focus is in it: j and k move, r, l, a and o follow
// the row's links, / opens the search, ? opens the explanation. A button switches them off.

const OFF = "warren-board-keys-off";
const MOVES = { j: 1, k: -1 };
const SEARCH = "a[data-find-link]";
const LINKS = { r: "[data-rerun]", l: "[data-log]", a: "[data-acknowledge]", o: "[data-open]" };

const list = () => document.querySelector("[data-board-keys]");
let at = "";

showSwitch();
document.addEventListener("focusin", (event) => {
  const row = event.target.closest?.("[data-board-keys] [data-row]");
  if (row) mark(row);
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-keys-switch]")) return;
  if (isOff()) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "1");
  showSwitch();
});
document.addEventListener("keydown", (event) => {
  if (isOff() || event.ctrlKey || event.altKey || event.metaKey) return;
  if (!list()?.contains(event.target) || event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  const done = act(event.key);
  if (done) event.preventDefault();
});

function act(key) {
  if (key in MOVES) return move(MOVES[key]);
  if (key === "?") return document.querySelector("[data-keys-help]")?.toggleAttribute("open") !== undefined;
  const link = key === "/" ? document.querySelector(SEARCH) : key in LINKS ? current()?.querySelector(LINKS[key]) : null;
  link?.click();
  return Boolean(link);
}

function move(step) {
  const rows = [...list().querySelectorAll("[data-row]")];
  const place = rows.indexOf(current());
  const next = rows[place < 0 ? 0 : Math.min(Math.max(place + step, 0), rows.length - 1)];
  next?.scrollIntoView({ block: "nearest" });
  return focus(next);
}

// The list is replaced every few seconds, so the row is remembered by its name.
const current = () => (at ? list()?.querySelector(`[data-row="${at}"]`) : null);

function mark(row) {
  at = row.dataset.row;
  for (const other of list().querySelectorAll(".at")) other.classList.remove("at");
  row.classList.add("at");
}

function focus(element) {
  element?.focus();
  return Boolean(element);
}

function isOff() {
  return Boolean(localStorage.getItem(OFF));
}

function showSwitch() {
  const button = document.querySelector("[data-keys-switch]");
  if (!button) return;
  button.hidden = false;
  button.textContent = isOff() ? button.dataset.on : button.dataset.off;
}
