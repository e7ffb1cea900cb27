// Draws the table of days as stacked columns; the table remains, folded.
import "uplot/dist/uPlot.min.css";
import uPlot from "uplot";

const HEIGHT = 216;
const DAY_SECONDS = 86400;

const place = document.querySelector("[data-days]");
const table = place?.parentElement.querySelector(".days-table");
if (place && table) draw(place, table);

function draw(place, table) {
  const found = read(table);
  place.hidden = false;
  table.open = false;
  let chart = null;
  const redraw = () => {
    chart?.destroy();
    chart = new uPlot(options(place, found), stacked(found.days, found.values), place);
  };
  redraw();
  new ResizeObserver(() => chart.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  // A canvas does not follow changed colours by itself.
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

function read(table) {
  const heads = [...table.querySelectorAll("thead th[data-tone]")];
  const rows = [...table.querySelectorAll("tbody tr")].reverse();
  return {
    dayHead: table.querySelector("thead th").textContent,
    names: heads.map((head) => head.textContent),
    tones: heads.map((head) => head.dataset.tone),
    days: rows.map((row) => Date.parse(row.querySelector("th").textContent) / 1000),
    values: heads.map((_, column) => rows.map((row) => Number(row.querySelectorAll("td")[column].dataset.value))),
  };
}

// Running totals, the highest first, so that each column covers part of the one before.
function stacked(days, values) {
  const sums = days.map(() => 0);
  const stacks = values.map((column) => column.map((value, row) => (sums[row] += value)));
  return [days, ...stacks.reverse()];
}

function options(place, { dayHead, names, tones, days, values }) {
  const quiet = colour(place, "quiet");
  const line = { stroke: colour(place, "rim"), width: 1 };
  const columns = uPlot.paths.bars({ size: [0.62, 64], radius: 0.06 });
  const say = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);
  const series = names.map((name, column) => ({
    label: name,
    stroke: colour(place, tones[column]),
    fill: colour(place, tones[column]),
    width: 0,
    paths: columns,
    points: { show: false },
    value: (_chart, _sum, _series, row) => (row == null ? "–" : values[column][row].toLocaleString()),
  }));
  return {
    width: place.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { range: () => [days[0] - DAY_SECONDS / 2, days.at(-1) + DAY_SECONDS / 2] },
      y: { range: (_chart, _low, high) => [0, Math.max(high, 1) * 1.06] },
    },
    axes: [
      { stroke: quiet, grid: { show: false }, ticks: { show: false }, size: 30, splits: (chart) => marks(days, chart.width), values: (_chart, found) => found.map((seconds) => say(seconds).slice(5)) },
      { stroke: quiet, grid: line, ticks: { show: false }, size: 62, values: (_chart, found) => found.map((value) => (Number.isInteger(value) ? value.toLocaleString() : "")) },
    ],
    series: [{ label: dayHead, value: (_chart, day) => (day == null ? "–" : say(day)) }, ...series.reverse()],
  };
}

function marks(days, width) {
  const step = Math.ceil((days.length * 74) / Math.max(width - 62, 74));
  return days.filter((_, number) => (days.length - 1 - number) % step === 0);
}

// Returns a colour of the style sheet for the current theme.
function colour(place, tone) {
  const probe = place.appendChild(document.createElement("i"));
  probe.className = `tone-${tone}`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
