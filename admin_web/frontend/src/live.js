// An element with `data-live="5"` and an id is fetched again every 5 s and put in place of itself.
// It waits while nobody looks, and while somebody is at work in it.

const HEADERS = { "Warren-Live": "1" };
const SLOWEST_SECONDS = 60;

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
    if (fresh && !isInUse(part) && fresh.innerHTML !== part.innerHTML) part.replaceWith(document.adoptNode(fresh));
    return Boolean(fresh);
  } catch {
    return false;
  }
}

function isInUse(part) {
  const selected = getSelection();
  const isSelecting = selected && !selected.isCollapsed && part.contains(selected.anchorNode);
  return part.contains(document.activeElement) || part.querySelector("details[open], input[type=checkbox]:checked") || isSelecting;
}
