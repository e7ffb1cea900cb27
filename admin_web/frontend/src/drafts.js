// Keeps what is typed into a form until the console has accepted it, in spite of an expired session,
// an outage or a reload; and what is ticked in a list when it is sent. Stored in this tab for one
// user, and only what differs from the page.
import { lost, onReturn, showNotSubmitted } from "./conditions.js";

const PREFIX = "warren-draft:";
const PAUSE_MS = 300;
const TYPED = "textarea, select, input:not([type=hidden], [type=password], [type=file], [type=checkbox], [type=radio], [type=search])";
/** The rows that are ticked in a list, and its buttons for them. */
const LIST = "form.selectable";
const user = () => document.getElementById("conditions")?.dataset.user ?? "";
// Not `form.action`: in a form with a field of that name, it is the field.
const pathOf = (form) => new URL(form.getAttribute("action") ?? "", location.href).pathname;
const keyOf = (form) => `${PREFIX}${user()}:${pathOf(form)}${given()}`;
/** What a page was opened to restore or to fill in; its draft is none of the page without it. */
const given = () => {
  const query = new URLSearchParams(location.search);
  return ["restore", "version", "job"].map((name) => query.get(name) ?? "").join("/");
};

export function keepDrafts() {
  const main = document.getElementById("main");
  if (!user()) return;
  const forms = [...main.querySelectorAll(`form[method=post], ${LIST}`)].filter(isKept);
  dropTaken(forms);
  for (const form of forms) {
    form.dataset.kept = "";
    restore(form);
    if (form.matches(LIST)) continue;
    let timer = 0;
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => saveTyped(form), PAUSE_MS);
    });
    form.addEventListener("change", () => saveTyped(form));
  }
  // Runs after the form's own listeners, in which an editor copies its text into the form.
  document.addEventListener("submit", sending);
  document.addEventListener("click", leaving);
}

// A form of passwords is not kept; one with a signing secret is, without the secret.
const PASSWORD = "[type=password]:not([name=secret])";
const isKept = (form) => form.matches(LIST) || (form.querySelector(TYPED) && !form.querySelector(PASSWORD));

function sending(event) {
  const form = event.target;
  const method = event.submitter?.formMethod || form.method;
  if (event.defaultPrevented || method !== "post") return;
  if (lost() || "sent" in form.dataset) {
    event.preventDefault();
    if (lost()) showNotSubmitted();
    return;
  }
  if (isKept(form)) save(form, true);
  form.dataset.sent = "";
  addEventListener("pageshow", () => delete form.dataset.sent, { once: true });
  onReturn(() => delete form.dataset.sent);
}

/** Delete drafts on sign-out, and a form's draft when its Cancel link is clicked. */
function leaving(event) {
  const button = event.target.closest("a.button, [data-sign-out]");
  if (!button) return;
  if ("signOut" in button.dataset) for (const key of keys()) sessionStorage.removeItem(key);
  const form = button.closest("form");
  if (form && isKept(form) && button.matches("a")) sessionStorage.removeItem(keyOf(form));
}

/** Ignore late input events of a form that is being submitted. */
function saveTyped(form) {
  if (!("sent" in form.dataset)) save(form);
}

function save(form, isSent = false) {
  const fields = [...form.elements].filter((one) => one.name && one.name !== "csrf_token" && (one.type === "hidden" || isChanged(one))).map(read);
  if (!isSent && !fields.some((one) => !one.isHidden)) return;
  const before = stored(keyOf(form))?.fields ?? [];
  const kept = before.filter((old) => !fields.some((one) => one.name === old.name && one.value === old.value));
  const merged = isSent || !form.querySelector(".wrong") ? fields : [...kept, ...fields];
  try {
    sessionStorage.setItem(keyOf(form), JSON.stringify({ isSent, fields: merged }));
  } catch {
    // The storage is full; the form works without a draft.
  }
}

function isChanged(one) {
  if (one.matches("button, [type=password], [type=file], [type=submit], [name=is_sure]")) return false;
  if (one.type === "checkbox" || one.type === "radio") return one.checked !== one.defaultChecked;
  if (one.matches("select")) return [...one.options].some((option) => option.selected !== option.defaultSelected);
  return one.value !== one.defaultValue;
}

function read(one) {
  const isBox = one.type === "checkbox" || one.type === "radio";
  const value = one.multiple ? [...one.selectedOptions].map((option) => option.value) : one.value;
  return { name: one.name, value, isHidden: one.type === "hidden", ...(isBox && { isChecked: one.checked }) };
}

/** Delete drafts of forms that were submitted and accepted; a preview shows all values itself. */
function dropTaken(forms) {
  for (const key of keys()) {
    if (!stored(key)?.isSent) continue;
    const isHere = forms.some((form) => keyOf(form) === key);
    const isTaken = isHere ? document.querySelector("#main > .notice.good, #main > [data-preview]") : isRedirected();
    if (isTaken) sessionStorage.removeItem(key);
  }
}

/** Whether the server led here, as it does after each accepted form; not so after a failed request. */
const isRedirected = () => performance.getEntriesByType("navigation")[0]?.redirectCount > 0;

function restore(form) {
  const draft = stored(keyOf(form));
  // A form that came back with errors already shows what was typed.
  if (!draft || form.querySelector(".wrong, .notice.bad")) return;
  const changed = draft.fields.filter((one) => put(form, one));
  if (!changed.length) sessionStorage.removeItem(keyOf(form));
  if (!changed.some((one) => !one.isHidden)) return;
  const notice = document.querySelector("template[data-draft]").content.cloneNode(true);
  notice.querySelector("button").addEventListener("click", () => {
    sessionStorage.removeItem(keyOf(form));
    location.reload();
  });
  form.prepend(notice);
}

/** Put a value into its field; return whether that changed it. */
function put(form, field) {
  const { name, value, isChecked } = field;
  const named = [...form.elements].filter((one) => one.name === name);
  const one = isChecked === undefined ? named[0] : named.find((box) => box.value === value);
  if (!one || JSON.stringify(read(one)) === JSON.stringify(field)) return false;
  if (isChecked !== undefined) one.checked = isChecked;
  else if (one.multiple) for (const option of one.options) option.selected = value.includes(option.value);
  else one.value = value;
  one.dispatchEvent(new Event("input", { bubbles: true }));
  one.dispatchEvent(new Event("change", { bubbles: true }));
  return true;
}

const keys = () => Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX));

function stored(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null;
  }
}
