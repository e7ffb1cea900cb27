// Ctrl-K or the link in the menu opens the search box; without scripts the link leads to a page.
// Results are links. Arrow keys select one while the focus stays in the text field. Enter opens what
// was found for the text as it stands: while the answer is on its way, it waits for it.
import { sessionLost } from "./conditions.js";

const LIVE = { "Warren-Live": "1" };
const PAUSE_MS = 150;

export function findAnything() {
  const box = document.querySelector("dialog[data-find]");
  if (!box) return;
  const input = box.querySelector("input");
  const list = box.querySelector("[data-found]");
  let asked = 0;
  let timer;
  // Whether the list shows what was found for another text, and whether Enter waits for the answer.
  let isOld = true;
  let isEntered = false;

  const open = () => {
    if (box.open) return;
    input.value = "";
    isEntered = false;
    box.showModal();
    input.focus();
    ask();
  };

  const ask = async () => {
    const number = ++asked;
    clearTimeout(timer);
    isOld = true;
    const answer = await fetch(`${box.dataset.find}?part=1&q=${encodeURIComponent(input.value)}`, { headers: LIVE }).catch(() => null);
    if (answer?.status === 401) {
      box.close();
      sessionLost();
    }
    // Answers may arrive out of order.
    if (number !== asked) return;
    if (!answer?.ok) return (isEntered = false);
    list.innerHTML = await answer.text();
    list.querySelector("ul")?.setAttribute("role", "presentation");
    for (const [place, link] of choices().entries()) {
      link.parentElement.setAttribute("role", "presentation");
      link.id = `found-${place}`;
      link.role = "option";
      link.tabIndex = -1;
    }
    choose(0);
    isOld = false;
    if (isEntered && box.open) chosen()?.click();
    isEntered = false;
  };

  const choices = () => [...list.querySelectorAll("a")];
  const chosen = () => list.querySelector('[aria-selected="true"]');

  const choose = (place) => {
    const all = choices();
    for (const link of all) link.ariaSelected = "false";
    const link = all[(place + all.length) % all.length];
    if (link) {
      link.ariaSelected = "true";
      link.scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", link.id);
    } else input.removeAttribute("aria-activedescendant");
  };

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open();
  });
  document.querySelector("a[data-find-link]")?.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    isOld = true;
    isEntered = false;
    asked += 1;
    timer = setTimeout(ask, PAUSE_MS);
  });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      choose(choices().indexOf(chosen()) + step);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (!isOld) return chosen()?.click();
      isEntered = true;
      ask();
    }
  });
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  });
}
