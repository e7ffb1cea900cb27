// Ctrl-K or the link in the menu opens the search box; without scripts the link leads to a page.
// Results are links. Arrow keys select one while the focus stays in the text field.
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

  const open = () => {
    if (box.open) return;
    input.value = "";
    box.showModal();
    input.focus();
    ask();
  };

  const ask = async () => {
    const number = ++asked;
    const answer = await fetch(`${box.dataset.find}?part=1&q=${encodeURIComponent(input.value)}`, { headers: LIVE }).catch(() => null);
    if (answer?.status === 401) {
      box.close();
      sessionLost();
    }
    // Answers may arrive out of order.
    if (!answer?.ok || number !== asked) return;
    list.innerHTML = await answer.text();
    list.querySelector("ul")?.setAttribute("role", "presentation");
    for (const [place, link] of choices().entries()) {
      link.parentElement.setAttribute("role", "presentation");
      link.id = `found-${place}`;
      link.role = "option";
      link.tabIndex = -1;
    }
    choose(0);
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
    timer = setTimeout(ask, PAUSE_MS);
  });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      choose(choices().indexOf(chosen()) + step);
    } else if (event.key === "Enter") {
      event.preventDefault();
      chosen()?.click();
    }
  });
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  });
}
