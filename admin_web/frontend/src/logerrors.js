// Marks the lines of a log that tell of an error; a button goes to the first one, then to the next.
const ERROR = /(^|[^\w-])(\w*(error|exception)|traceback|critical|fatal)\b/i;

export function markErrors(box) {
  const button = document.querySelector("[data-log-error]");
  let at = -1;
  const mark = () => {
    for (const line of box.querySelectorAll(".log-line:not([data-read])")) {
      line.dataset.read = "";
      line.classList.toggle("error", ERROR.test(line.querySelector("code").textContent));
    }
    button.hidden = !box.querySelector(".log-line.error");
  };
  mark();
  new MutationObserver(mark).observe(box, { childList: true });
  button.addEventListener("click", () => {
    const lines = [...box.querySelectorAll(".log-line.error")];
    at = (at + 1) % lines.length;
    box.querySelector(".log-line.at")?.classList.remove("at");
    lines[at].classList.add("at");
    lines[at].scrollIntoView({ block: "center" });
  });
}
