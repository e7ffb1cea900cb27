// Switches the theme at once, and saves it in the background.

export function switchThemeInPlace() {
  for (const form of document.querySelectorAll("[data-theme-switch]")) form.addEventListener("submit", change);
}

async function change(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const button = form.querySelector("[name=theme]");
  const root = document.documentElement;
  const isDark = root.dataset.theme === "dark" || (root.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const wanted = isDark ? "light" : "dark";
  root.dataset.theme = wanted;
  button.value = wanted;
  await fetch(form.action, { method: "POST", body: new FormData(form, button), redirect: "manual" });
}
