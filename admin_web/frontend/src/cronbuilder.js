// Builds a cron expression from choices and writes it into the field beside them.

export function buildCron() {
  for (const place of document.querySelectorAll("[data-cron-builder]")) start(place);
}

function start(place) {
  const field = document.querySelector("[name=cron]");
  const every = place.querySelector("[data-cron-every]");
  const choose = () => {
    for (const part of place.querySelectorAll("[data-cron-for]")) part.hidden = !part.dataset.cronFor.split(" ").includes(every.value);
  };
  every.addEventListener("change", choose);
  // These choices are not fields of the form: only the expression is submitted and previewed.
  place.addEventListener("change", (event) => event.stopPropagation());
  place.addEventListener("input", (event) => event.stopPropagation());
  place.querySelector("[data-cron-take]").addEventListener("click", () => {
    field.value = expression(place, every.value);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  choose();
  place.hidden = false;
}

function expression(place, every) {
  const value = (name) => place.querySelector(`[data-cron-${name}]`).value;
  const [hour, minute] = (value("time") || "00:00").split(":").map(Number);
  if (every === "minutes") return value("minutes") === "1" ? "0 * * * * ?" : `0 0/${value("minutes")} * * * ?`;
  if (every === "hours") return `0 ${Math.min(59, Math.max(0, Number(value("minute")) || 0))} * * * ?`;
  if (every === "week") {
    const days = [...place.querySelectorAll("[data-cron-weekday]:checked")].map((box) => box.value);
    return `0 ${minute} ${hour} ? * ${days.length ? days.join(",") : "*"}`;
  }
  if (every === "month") return `0 ${minute} ${hour} ${value("day")} * ?`;
  return `0 ${minute} ${hour} * * ?`;
}
