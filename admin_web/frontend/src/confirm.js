// Opens the confirmation that the URL names; closes an open one on Escape, on Cancel, or on a click
// elsewhere.

const OPEN = "details.confirm[open]";

export function askQuestions() {
  const asked = document.getElementById(location.hash.slice(1));
  if (asked?.matches("details.confirm")) {
    asked.open = true;
    asked.querySelector("summary").focus();
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const question of document.querySelectorAll(OPEN)) {
      const held = question.contains(document.activeElement);
      question.open = false;
      if (held) question.querySelector("summary").focus();
    }
  });
  document.addEventListener("click", (event) => {
    const question = event.target.closest("[data-cancel]")?.closest(OPEN);
    if (question) {
      question.open = false;
      question.querySelector("summary").focus();
    }
    for (const question of document.querySelectorAll(OPEN))
      if (!question.contains(event.target)) question.open = false;
  });
}
