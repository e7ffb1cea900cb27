// Keeps the banners of a page right: what is wrong with the cluster, and whether the console, its
// database and the sign-in are still there. While they are not, what was live looks stale, and no
// form is sent.

const PAUSE_MS = 2_000;
// With the pause less than five seconds, after which nobody should believe the page.
const PATIENCE_MS = 2_500;
const HEADERS = { "Warren-Live": "1" };
const root = document.documentElement;

let box = null;
let timer = 0;
let shown = null;
let isAsking = false;

/** What is lost at present: "console", "database", "session", or nothing. */
export const lost = () => root.dataset.lost ?? "";

/** Calls back when what was lost is there again. */
export const onReturn = (act) => document.addEventListener("warren:return", act);

export function watchConditions() {
  box = document.getElementById("conditions");
  if (!box?.dataset.conditions) return;
  shown = box.innerHTML.trim();
  document.addEventListener("visibilitychange", () => document.hidden || look());
  addEventListener("online", look);
  plan();
}

/** Show that nothing was sent, where it says what is lost. */
export function sayHeld() {
  const held = box?.querySelector("[data-held]");
  if (!held) return;
  held.hidden = false;
  held.closest(".notice").scrollIntoView({ block: "nearest" });
}

/** The sign-in is over: say so at once. */
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
  // A page from before the database was lost is only good until it is back.
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
  // Where nothing is typed, the sign-in page comes by itself and leads back here.
  if (what === "session" && !document.querySelector("form[data-kept]")) return signIn();
  root.dataset.lost = what;
  if (what === "database" && document.querySelector("[data-cached]")) return;
  const banner = bannerOf(what);
  const since = banner.querySelector("time");
  if (since) tellTime(since, new Date());
  banner.querySelector("[data-sign-in]")?.setAttribute("href", signInPath(banner));
  shown = null;
  box.replaceChildren(banner);
}

const bannerOf = (what) => document.querySelector(`template[data-lost="${what}"]`).content.cloneNode(true);

// Not by a reload: that would send again the form that this page is the answer to.
export const signIn = () => location.replace(signInPath(bannerOf("session")) + location.hash);

function tellTime(place, now) {
  place.dateTime = now.toISOString();
  place.textContent = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: box.dataset.zone }).format(now);
}

function signInPath(banner) {
  // What comes from a template knows no address of its own.
  const login = new URL(banner.querySelector("[data-sign-in]").getAttribute("href"), location.href);
  login.searchParams.set("next", location.pathname + location.search);
  return login.href;
}
