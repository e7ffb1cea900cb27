// Buttons that copy the text of another element. Without scripts they stay hidden; browsers allow
// copying only on https and on this machine.

export function copyTexts() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = button.dataset.copied;
    });
  }
}
