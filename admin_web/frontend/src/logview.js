// Remembers in the browser, for all logs, whether to show times and to wrap lines.

export function rememberView(box) {
  for (const choice of document.querySelectorAll("[data-log-look]")) {
    const name = choice.dataset.logLook;
    choice.checked = stored(name) === "1";
    box.classList.toggle(name, choice.checked);
    choice.addEventListener("change", () => {
      box.classList.toggle(name, choice.checked);
      store(name, choice.checked ? "1" : "0");
    });
  }
}

// The browser may deny access to the storage; then the defaults apply.
function stored(name) {
  try {
    return localStorage.getItem(`warren-log-${name}`);
  } catch {
    return null;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(`warren-log-${name}`, value);
  } catch {
    // See above.
  }
}
