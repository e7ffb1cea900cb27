// Keeps the banners of a page up to date: problems of the cluster, and whether the console, its
// database and the session are available. While they are not, live parts look stale, and no form
// is submitted.

const PAUSE_MS = 2_000;
// Together with the pause below 5 s, so that a page is never stale for longer without saying so.
const PATIENCE_MS = 2_500;
const HEADERS = { "Warren-Live": "1" };
const root = document.documentElement;

let box = null;
let timer = 0;
let shown = null;
let isAsking = false;

/** What is currently lost: "console", "database", "session", or "". */
export const lost = () => root.dataset.lost ?? "";

/** Calls back once it is available again. */
export const onReturn = (act) => document.addEventListener("warren:return", act);

export function watchConditions() {
  box = document.getElementById("conditions");
  if (!box?.dataset.conditions) return;
  shown = box.innerHTML.trim();
  document.addEventListener("visibilitychange", () => document.hidden || look());
  addEventListener("online", look);
  plan();
}

/** Show in the banner that the form was not submitted. */
export function showNotSubmitted() {
  const held = box?.querySelector("[data-held]");
  if (!held) return;
  held.hidden = false;
  held.closest(".notice").scrollIntoView({ block: "nearest" });
}

/** Show at once that the session has ended. */
export const sessionLost = () => lose("session");

function plan() {
  clearTimeout(timer);
  timer = setTimeout(look, PAUSE_MS);
}

async function look() {
  if (isAsking || document.hidden) return plan();
  isAsking = true;
  try {
    settle(await ask());
  } finally {
    isAsking = false;
    plan();
  }
}

async function ask() {
  try {
    const answer = await fetch(box.dataset.conditions, { headers: HEADERS, signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.status === 401) return { lost: "session" };
    if (answer.status === 503) return { lost: "database" };
    if (!answer.ok || answer.redirected) return { lost: "console" };
    return { html: await answer.text() };
  } catch {
    return { lost: "console" };
  }
}

function settle(found) {
  if (found.lost) return lose(found.lost);
  const wasLost = lost();
  delete root.dataset.lost;
  // Replace a cached page as soon as the database is back.
  if (document.querySelector("[data-cached]")) return location.reload();
  show(found.html.trim());
  if (wasLost) document.dispatchEvent(new Event("warren:return"));
}

function show(html) {
  if (html === shown) return;
  shown = html;
  box.innerHTML = html;
}

function lose(what) {
  if (lost() === what) return;
  // Without a form to lose, go to the sign-in page, which leads back here.
  if (what === "session" && !document.querySelector("form[data-kept]")) return signIn();
  root.dataset.lost = what;
  if (what === "database" && document.querySelector("[data-cached]")) return;
  const banner = bannerOf(what);
  const since = banner.querySelector("time");
  if (since) showTime(since, new Date());
  banner.querySelector("[data-sign-in]")?.setAttribute("href", signInPath(banner));
  shown = null;
  box.replaceChildren(banner);
}

const bannerOf = (what) => document.querySelector(`template[data-lost="${what}"]`).content.cloneNode(true);

// Not by reloading, which would submit again the form that this page answers.
export const signIn = () => location.replace(signInPath(bannerOf("session")) + location.hash);

function showTime(place, now) {
  place.dateTime = now.toISOString();
  place.textContent = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: box.dataset.zone }).format(now);
}

function signInPath(banner) {
  // Nodes in a template have no base URL, so their `href` property is not resolved.
  const login = new URL(banner.querySelector("[data-sign-in]").getAttribute("href"), location.href);
  login.searchParams.set("next", location.pathname + location.search);
  return login.href;
}
