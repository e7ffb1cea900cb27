// Follows a run's log: requests the lines after the last one, and appends them.
//
// Each answer says what asking the executor gave, whether there are more lines now, and whether the
// run is still open. Lines are text, never HTML.
import { rememberView } from "./logview.js";
import { sessionLost } from "./conditions.js";
import { markErrors } from "./logerrors.js";
import { searchLog } from "./logsearch.js";
import { searchWholeLog } from "./wholelog.js";

const HEADERS = { "Warren-Live": "1", Accept: "application/json" };
// A line appears after half of this on average, plus some 30 ms for the request.
const POLL_MS = 400;
const SLOWEST_MS = 30_000;
const MAX_LINES = 20_000;
const NEAR_PIXELS = 60;
// What is said while nobody returns lines, by the answer.
const WORDS = { SILENT: "textSilent", STORE_AWAY: "textStoreAway", STORE_LOST: "textStoreLost" };

export function followLog() {
  const box = document.getElementById("log");
  if (box) new Follower(box).start();
}

class Follower {
  constructor(box) {
    this.box = box;
    this.text = box.dataset;
    this.next = Number(box.dataset.next);
    this.isOpen = "open" in box.dataset;
    this.isEnd = "end" in box.dataset;
    this.failures = box.dataset.answer === "LINES" ? 0 : 1;
    this.isAtWork = false;
    this.timer = 0;
    this.follow = document.getElementById("log-follow");
    this.search = searchLog(box, document.querySelector("[data-log-tools]"), box.dataset);
  }

  start() {
    this.follow.checked = this.isOpen && !("placed" in this.text);
    this.follow.addEventListener("change", () => this.settle());
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    document.addEventListener("visibilitychange", () => document.hidden || this.plan(0));
    document.getElementById("log-further").hidden = true;
    rememberView(this.box);
    searchWholeLog(this.box);
    markErrors(this.box);
    this.settle();
    if ("ended" in this.text && !location.hash) this.box.scrollTop = this.box.scrollHeight;
    this.say();
    this.plan(this.isEnd || this.failures ? POLL_MS : 0);
  }

  /** Whether to request more lines: there may be some, and the user is looking at the end. */
  get isWanted() {
    if (document.hidden) return false;
    if (this.isOpen) return this.follow.checked || this.isNearEnd || this.box.childElementCount < MAX_LINES;
    return (!this.isEnd || this.failures > 0) && (this.isNearEnd || this.follow.checked);
  }

  get isNearEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_PIXELS;
  }

  plan(pause) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.round(), pause);
  }

  async round() {
    if (this.isAtWork || !this.isWanted) return;
    this.isAtWork = true;
    const pause = await this.ask();
    this.isAtWork = false;
    if (this.isOpen || !this.isEnd || this.failures) this.plan(pause);
  }

  /** Send one request; return the milliseconds until the next. */
  async ask() {
    let found;
    try {
      const answer = await fetch(`${this.text.lines}?from=${this.next}`, { headers: HEADERS, credentials: "same-origin" });
      if (answer.status === 401) sessionLost();
      if (!answer.ok) throw new Error(answer.status);
      found = await answer.json();
    } catch {
      return this.failed(this.text.textLost);
    }
    document.getElementById("log-state").innerHTML = found.state;
    this.isOpen = found.is_open;
    if (found.answer === "BUSY") return this.failed(this.text.textBusy);
    if (found.answer in WORDS) {
      // The run is over, so the stored end of its log is all there will be.
      if (!this.isOpen && this.next === 1) this.isEnd = true;
      return this.failed(this.text[WORDS[found.answer]]);
    }
    this.failures = 0;
    this.isEnd = found.is_end;
    if (!this.isOpen) document.getElementById("log-kill")?.remove();
    if (found.lines.length) this.append(found.first, found.lines, found.times);
    // Without the log, and beside what is kept of it, the notice stays true.
    if (found.answer === "LINES" && !this.box.querySelector(".kept")) document.querySelector("[data-log-notice]")?.remove();
    this.say();
    // A gateway may still be copying the end of a log that has no more lines here.
    return this.isEnd || !found.lines.length ? POLL_MS : 0;
  }

  failed(words) {
    this.failures += 1;
    this.tell(words);
    return Math.min(POLL_MS * 2 ** this.failures, SLOWEST_MS);
  }

  append(first, lines, times) {
    if (first !== this.next) return;
    const rows = document.createDocumentFragment();
    lines.forEach((line, index) => rows.append(row(first + index, line, times[index])));
    for (const other of this.box.querySelectorAll(".log-empty, .kept")) other.remove();
    this.box.append(rows);
    this.next = first + lines.length;
    if (this.follow.checked) this.trim();
    this.search.refresh();
    this.settle();
  }

  /** Remove the oldest lines of a long log, and show a link to them. */
  trim() {
    let surplus = this.box.childElementCount - MAX_LINES;
    if (surplus <= 0) return;
    while (surplus-- > 0) this.box.firstElementChild.remove();
    const first = Number(this.box.firstElementChild.id.slice(1));
    const earlier = document.getElementById("log-earlier");
    earlier.hidden = false;
    earlier.querySelector("[rel=prev]").href = `?line=${Math.max(1, first - 500)}`;
  }

  settle() {
    if (this.follow.checked) this.box.scrollTop = this.box.scrollHeight;
    this.plan(this.isEnd ? POLL_MS : 0);
  }

  scrolled() {
    if (this.follow.checked && !this.isNearEnd) this.follow.checked = false;
    else if (this.isOpen && this.isNearEnd && !this.search.isActive) this.follow.checked = true;
    clearTimeout(this.noting);
    this.noting = setTimeout(() => this.notePlace(), 200);
    if (this.isNearEnd) this.plan(this.isEnd ? POLL_MS : 0);
  }

  /** Store the first visible line in the URL, so that a reload returns to it. */
  notePlace() {
    const url = new URL(location.href);
    url.hash = "";
    url.searchParams.delete("line");
    const number = this.follow.checked ? 0 : this.firstInSight();
    if (number > 1) url.searchParams.set("line", number);
    history.replaceState(null, "", url);
  }

  firstInSight() {
    const top = this.box.getBoundingClientRect().top;
    const lines = this.box.querySelectorAll(".log-line[id]");
    let low = 0;
    let high = lines.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lines[middle].getBoundingClientRect().bottom > top + 4) high = middle;
      else low = middle + 1;
    }
    return lines.length ? Number(lines[low].id.slice(1)) : 0;
  }

  say() {
    if (this.failures) return;
    if (!this.isEnd) this.tell(this.text.textMore);
    else this.tell(this.isOpen ? this.text.textOpen : this.text.textOver);
  }

  tell(words) {
    const standing = document.getElementById("log-standing");
    if (standing.textContent !== words) standing.textContent = words;
  }
}

export function row(number, pieces, time) {
  const line = document.createElement("div");
  line.className = "log-line";
  line.id = `L${number}`;
  if (time) line.dataset.time = time;
  const link = document.createElement("a");
  link.className = "log-number";
  link.href = `#L${number}`;
  link.textContent = number;
  const code = document.createElement("code");
  for (const [looks, text] of typeof pieces === "string" ? [["", pieces]] : pieces) code.append(looks ? styled(looks, text) : text);
  line.append(link, code);
  return line;
}

function styled(looks, text) {
  const piece = document.createElement("span");
  piece.className = looks;
  piece.textContent = text;
  return piece;
}
