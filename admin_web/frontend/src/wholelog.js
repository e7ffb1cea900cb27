// Searches a whole log at its executor, piece by piece, and links the matching lines.

const HEADERS = { "Warren-Live": "1", Accept: "application/json" };
const MAX_LINES = 500;
// Carries the words over to the page with another part of the log.
const PARAMETER = "find";

export function searchWholeLog(box) {
  const field = document.getElementById("log-search");
  const place = document.getElementById("log-whole");
  let turn = 0;

  async function search() {
    const words = field.value.trim();
    const mine = ++turn;
    place.hidden = !words;
    if (!words) return;
    place.textContent = box.dataset.textLooking;
    const found = [];
    let from = 1;
    let isEnd = false;
    while (!isEnd && found.length < MAX_LINES) {
      const answer = await ask(words, from);
      if (mine !== turn) return;
      if (!answer) {
        place.textContent = box.dataset.textSilent;
        return;
      }
      found.push(...answer.lines);
      isEnd = answer.is_end;
      from = answer.looked_to + 1;
      show(words, found, answer.looked_to, isEnd);
    }
  }

  async function ask(words, from) {
    try {
      const answer = await fetch(`${box.dataset.search}?${new URLSearchParams({ q: words, from })}`, { headers: HEADERS, credentials: "same-origin" });
      const found = answer.ok && (await answer.json());
      return found && found.answer === "LINES" ? found : null;
    } catch {
      return null;
    }
  }

  function show(words, found, looked, isEnd) {
    const said = (isEnd ? box.dataset.textWhole : box.dataset.textSome).replace("{count}", found.length).replace("{looked}", looked);
    place.replaceChildren(said, ...found.slice(0, MAX_LINES).flatMap((line) => [" ", link(words, line)]));
  }

  function link(words, line) {
    const found = document.createElement("a");
    found.href = `?${new URLSearchParams({ line: Math.max(1, line - 20), [PARAMETER]: words })}#L${line}`;
    found.textContent = line;
    return found;
  }

  document.querySelector("[data-log-whole]").addEventListener("click", search);
  const asked = new URLSearchParams(location.search).get(PARAMETER);
  if (asked) {
    field.value = asked;
    field.dispatchEvent(new Event("input"));
    search();
  }
}
