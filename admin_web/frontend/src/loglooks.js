// Whether times are shown and lines are wrapped: remembered by the browser, for all logs.

export function rememberLooks(box) {
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

// A browser may forbid it; then each page begins as usual.
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
    // Not remembered.
  }
}
