// The checkbox in a table's head selects all rows of its form. The form has the listeners, as the
// table inside may be replaced.

export function selectAll() {
  for (const form of document.querySelectorAll("form.selectable")) {
    reveal(form);
    new MutationObserver(() => reveal(form)).observe(form, { childList: true, subtree: true });
    form.addEventListener("change", (event) => {
      if (!event.target.matches("[data-select-all]")) return;
      for (const box of form.querySelectorAll("input[name=id]")) box.checked = event.target.checked;
    });
  }
}

function reveal(form) {
  for (const box of form.querySelectorAll("[data-select-all]")) if (box.parentElement.hidden) box.parentElement.hidden = false;
}
