// An element with `data-live="5"` and an id is fetched again every 5 s and put in place of itself.
// It waits while nobody looks, and while somebody is at work in it.

const HEADERS = { "Warren-Live": "1" };
const SLOWEST_SECONDS = 60;
// The last answer for each part, by its id.
const shown = new Map();

export function refreshLiveParts() {
  for (const part of document.querySelectorAll("[data-live][id]")) follow(part.id, Number(part.dataset.live));
}

function follow(id, seconds) {
  let pause = seconds;
  const round = async () => {
    const part = document.getElementById(id);
    if (!part) return;
    if (!document.hidden && !isInUse(part)) pause = (await refresh(part)) ? seconds : Math.min(pause * 2, SLOWEST_SECONDS);
    setTimeout(round, pause * 1000);
  };
  setTimeout(round, pause * 1000);
}

async function refresh(part) {
  try {
    const answer = await fetch(location.href, { headers: HEADERS, credentials: "same-origin" });
    if (answer.status === 401) location.reload();
    if (!answer.ok) return false;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
    if (fresh && !isInUse(part)) replace(part, fresh);
    return Boolean(fresh);
  } catch {
    return false;
  }
}

// What was said before is not said again to those who hear the page.
function replace(part, fresh) {
  const html = fresh.innerHTML;
  if (html === (shown.get(part.id) ?? part.innerHTML)) return;
  shown.set(part.id, html);
  const said = new Set(aloud(part, "[role=status], [role=alert], [data-said]").map(words));
  for (const one of aloud(fresh, "[role=status], [role=alert]").filter((one) => said.has(words(one)))) {
    one.removeAttribute("role");
    one.dataset.said = "";
  }
  part.replaceWith(document.adoptNode(fresh));
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
