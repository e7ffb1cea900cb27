// Follows the logs of a broadcast's shards as one: asks one shard after the other for its next
// lines, and puts them in the order of their times. The rows of the page's table say which shards
// there are; they are replaced while it is live, and a retry has a new log.
import { sessionLost } from "./conditions.js";
import { markErrors } from "./logerrors.js";
import { rememberView } from "./logview.js";
import { row } from "./runlog.js";

const HEADERS = { "Warren-Live": "1", Accept: "application/json" };
const POLL_MS = 400;
const SLOWEST_MS = 30_000;
// So often an executor is asked for the log of a run that is over.
const TRIES = 3;
const MAX_LINES = 20_000;
const NEAR_PIXELS = 60;

export function followShards() {
  const box = document.getElementById("log");
  if (!box) return;
  document.getElementById("shard-logs").hidden = false;
  rememberView(box);
  markErrors(box);
  const logs = new Map();
  const round = async () => {
    if (!document.hidden) {
      for (const shard of document.querySelectorAll("tr[data-run]")) await next(shard.dataset, logs, box);
      say(box, logs);
    }
    const mayGrow = document.querySelector("#broadcast[data-live]") || [...logs.values()].some((log) => !log.isOver);
    if (mayGrow) setTimeout(round, POLL_MS);
  };
  round();
}

/** Ask for the next lines of a shard, unless its log is over or did not answer lately. */
async function next(shard, logs, box) {
  const known = logs.get(shard.run) ?? { next: 0, at: 0, failures: 0, pause: 0, isOver: false };
  logs.set(shard.run, known);
  if (known.isOver || Date.now() < known.pause) return;
  known.executor = shard.executor;
  try {
    const answer = await fetch(`${shard.log}/lines?${known.next ? `from=${known.next}` : "end=1"}`, { headers: HEADERS, credentials: "same-origin" });
    if (answer.status === 401) sessionLost();
    if (!answer.ok) throw new Error(answer.status);
    take(await answer.json(), shard, known, box);
  } catch {
    failed(known, true);
  }
}

function take(found, shard, known, box) {
  if (found.answer !== "LINES" && found.answer !== "MISSING") return failed(known, found.is_open || found.answer === "BUSY");
  known.failures = 0;
  if (found.lines.length) append(found, shard, known, box);
  known.next = Math.max(known.next, found.next);
  known.isOver = !found.is_open && found.is_end;
}

function failed(known, isHopeful) {
  known.failures += 1;
  known.pause = Date.now() + Math.min(POLL_MS * 2 ** known.failures, SLOWEST_MS);
  known.isOver = !isHopeful && known.failures >= TRIES;
}

function append(found, shard, known, box) {
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PIXELS;
  found.lines.forEach((text, index) => {
    known.at = Math.max(known.at, found.stamps[index]);
    const line = row(found.first + index, text, found.times[index]);
    line.removeAttribute("id");
    line.dataset.at = known.at;
    line.classList.add(`hue-${shard.hue}`);
    const name = line.querySelector(".log-number");
    name.textContent = shard.shard;
    name.href = `${shard.log}?line=${found.first + index}#L${found.first + index}`;
    name.title = box.dataset.textLine.replace("{shard}", shard.shard).replace("{executor}", shard.executor).replace("{line}", found.first + index);
    let later = box.lastElementChild;
    while (later && Number(later.dataset.at) > known.at) later = later.previousElementSibling;
    if (later) later.after(line);
    else box.prepend(line);
  });
  while (box.childElementCount > MAX_LINES) box.firstElementChild.remove();
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

function say(box, logs) {
  const all = [...logs.values()];
  const silent = all.filter((log) => log.failures);
  const names = [...new Set(silent.map((log) => log.executor))].join(", ");
  const { textOpen, textOver, textSilent, textGone } = box.dataset;
  let words = all.every((log) => log.isOver) ? textOver : textOpen;
  if (names) words = (silent.every((log) => log.isOver) ? textGone : textSilent).replace("{executors}", names);
  const standing = document.getElementById("log-standing");
  if (standing.textContent !== words) standing.textContent = words;
}
