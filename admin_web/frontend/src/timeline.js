// Arrow keys move between the bars of the timeline; the focused bar is described below it. While
// another window loads, a skeleton is there. The document has the listeners, as the timeline may be
// replaced.

export function walkTimeline() {
  document.addEventListener("keydown", step);
  for (const kind of ["focusin", "mouseover"]) document.addEventListener(kind, tell);
  for (const kind of ["click", "submit"]) document.addEventListener(kind, leave);
  // A page that the browser has kept is complete.
  addEventListener("pageshow", () => document.getElementById("timeline")?.removeAttribute("data-loading"));
}

/** Show a skeleton instead of the old bars while another window loads. */
function leave(event) {
  const isMove = event.type === "submit" ? event.target.matches("form.filter-bar") : event.target.closest?.(".zoom a");
  if (!isMove || event.ctrlKey || event.metaKey || event.shiftKey || event.button > 0) return;
  document.getElementById("timeline")?.setAttribute("data-loading", "");
}

const bars = (row) => [...row.querySelectorAll(".span-row a")];

function step(event) {
  const bar = event.target.closest?.(".span-row a");
  if (!bar || event.ctrlKey || event.metaKey || event.altKey) return;
  const next = target(bar, event.key);
  if (!next) return;
  event.preventDefault();
  for (const one of bars(next.closest("tr"))) one.setAttribute("tabindex", one === next ? "0" : "-1");
  next.focus();
}

function target(bar, key) {
  const row = bar.closest("tr");
  const mine = bars(row);
  const at = mine.indexOf(bar);
  if (key === "ArrowRight") return mine[at + 1];
  if (key === "ArrowLeft") return mine[at - 1];
  if (key === "Home") return mine[0];
  if (key === "End") return mine.at(-1);
  if (key === "ArrowDown") return nearest(row, "nextElementSibling", bar);
  if (key === "ArrowUp") return nearest(row, "previousElementSibling", bar);
  return null;
}

function nearest(row, way, bar) {
  const x = place(bar);
  for (let other = row[way]; other; other = other[way]) {
    const found = bars(other);
    if (found.length) return found.reduce((best, one) => (Math.abs(place(one) - x) < Math.abs(place(best) - x) ? one : best));
  }
  return null;
}

const place = (bar) => Number(bar.querySelector("rect").getAttribute("x"));

function tell(event) {
  const bar = event.target.closest?.(".span-row a");
  const said = document.querySelector("[data-span-told]");
  if (!bar || !said) return;
  said.textContent = `${bar.closest("tr").querySelector(".row-name").textContent} · ${bar.getAttribute("aria-label")}`;
}
