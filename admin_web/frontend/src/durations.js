// Draws the durations of a job's last runs over time, with uPlot, from the table on the page.
import uPlot from "uplot";

const HEIGHT = 180;
// uPlot's formats of time axes: seconds between ticks, the label of each tick, what to append at a
// new year, month, day, hour, minute and second, and 1 = append instead of replace.
const DAY = "\n{YYYY}-{MM}-{DD}";
const TIMES = [
  [86400 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DAY, null, DAY, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DAY, null, DAY, null, null, null, 1],
];

export function drawDurations(place) {
  const rows = [...document.querySelectorAll("#durations tr[data-at]")].reverse();
  if (rows.length < 2) return;
  const at = rows.map((row) => Number(row.dataset.at) / 1000);
  const seconds = (good) => rows.map((row) => (row.dataset.good === good ? Number(row.dataset.ms) / 1000 : null));
  const data = [at, seconds("1"), seconds("0")];
  let chart = draw(place, data);
  new ResizeObserver(() => chart.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  const redraw = () => {
    chart.destroy();
    chart = draw(place, data);
  };
  // A canvas does not follow changed colours by itself.
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

function draw(place, data) {
  const colour = (name) => resolved(place, `var(--${name})`);
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  const points = (label, name) => ({
    label,
    stroke: colour(name),
    paths: () => null,
    points: { show: true, size: 6, fill: colour(name), stroke: colour(name) },
    value: (_, value) => (value == null ? "–" : `${value.toPrecision(3)} s`),
  });
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), place.dataset.zone),
    scales: { y: { range: (_, _low, high) => [0, (high || 1) * 1.15] } },
    axes: [{ ...axis, values: TIMES, space: 80 }, { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }],
    series: [{ label: place.dataset.started, value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" }, points(place.dataset.good, "good"), points(place.dataset.bad, "bad")],
  };
  return new uPlot(options, data, place);
}

function resolved(place, value) {
  const probe = document.createElement("span");
  probe.style.color = value;
  place.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
