// Shows the advice about the selected option below its field; the whole list can be unfolded.

export function showAdvice() {
  for (const advice of document.querySelectorAll("[data-advice]")) {
    const choice = document.getElementById(advice.dataset.advice);
    const now = advice.querySelector("[data-advice-now]");
    const show = () => {
      const chosen = advice.querySelector(`[data-value="${CSS.escape(choice.value)}"] dd`);
      now.textContent = chosen ? chosen.textContent : "";
      now.hidden = !chosen;
    };
    choice.addEventListener("change", show);
    show();
  }
}
