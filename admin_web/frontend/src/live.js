// Replaces each element with `data-live="5"` and an id every 5 s by its new version; one request
// serves all elements of the page, those with `data-along`, and its title and icon. Pauses while the
// page is hidden and while the element is in use; ends when the new version no longer has `data-live`.
import { lost, onReturn, sessionLost } from "./conditions.js";

const HEADERS = { "Warren-Live": "1" };
const SLOWEST_SECONDS = 60;
const LIVE = "[data-live][id]";
// The last answer for each part, by its id.
const shown = new Map();
let failures = 0;
let timer = 0;

export function refreshLiveParts() {
  if (!document.querySelector(LIVE)) return;
  onReturn(() => {
    failures = 0;
    round();
  });
  plan();
}

function plan() {
  const pauses = parts().map((part) => Number(part.dataset.live));
  if (!pauses.length) return;
  const seconds = failures ? Math.min(Math.min(...pauses) * 2 ** failures, SLOWEST_SECONDS) : Math.min(...pauses);
  clearTimeout(timer);
  timer = setTimeout(round, seconds * 1000);
}

const parts = () => [...document.querySelectorAll(LIVE)];

async function round() {
  const wanted = document.hidden || lost() ? [] : parts().filter((part) => !isInUse(part));
  if (wanted.length) failures = (await refresh(wanted)) ? 0 : failures + 1;
  plan();
}

async function refresh(wanted) {
  try {
    const answer = await fetch(location.href, { headers: HEADERS, credentials: "same-origin" });
    if (answer.status === 401) sessionLost();
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of [...wanted, ...document.querySelectorAll("[data-along][id]")]) {
      const fresh = page.getElementById(part.id);
      if (fresh && part.isConnected && !isInUse(part)) replace(part, fresh);
    }
    tell(page);
    return true;
  } catch {
    for (const part of wanted) part.dataset.stale = "";
    return false;
  }
}

// The tab of a browser says the same as the page.
function tell(page) {
  document.title = page.title;
  const [shownIcon, freshIcon] = [document, page].map((one) => one.querySelector("link[rel=icon]"));
  if (shownIcon && freshIcon && shownIcon.outerHTML !== freshIcon.outerHTML) shownIcon.replaceWith(document.adoptNode(freshIcon));
}

// Removes the role of messages that were already there, so that screen readers do not repeat them.
function replace(part, fresh) {
  delete part.dataset.stale;
  const html = fresh.outerHTML;
  if (html === (shown.get(part.id) ?? part.outerHTML)) return;
  shown.set(part.id, html);
  const said = new Set(aloud(part, "[role=status], [role=alert], [data-said]").map(words));
  for (const one of aloud(fresh, "[role=status], [role=alert]").filter((one) => said.has(words(one)))) {
    one.removeAttribute("role");
    one.dataset.said = "";
  }
  const scrolled = [...part.querySelectorAll("[data-scroll-kept]")].map(({ id, scrollLeft, scrollTop }) => ({ id, scrollLeft, scrollTop }));
  part.replaceWith(document.adoptNode(fresh));
  for (const { id, ...place } of scrolled) Object.assign(document.getElementById(id) ?? {}, place);
}

const aloud = (part, which) => [...part.querySelectorAll(which)];

function words(notice) {
  const copy = notice.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.remove();
  return copy.textContent.trim();
}

function isInUse(part) {
  const selected = getSelection();
  const isSelecting = selected && !selected.isCollapsed && part.contains(selected.anchorNode);
  return part.contains(document.activeElement) || part.querySelector("details[open], input[type=checkbox]:checked") || isSelecting;
}
