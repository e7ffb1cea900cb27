// Shows on the form of a job only the fields that go with what is chosen. The style sheet does so
// too, but a browser need not look again when a script chooses, as one that fills in a draft.

export function showFields() {
  const form = document.querySelector(".job-form");
  if (!form) return;
  const show = () => showFitting(form);
  form.classList.remove("plain");
  form.addEventListener("change", show);
  addEventListener("pageshow", show);
  show();
}

function showFitting(form) {
  const language = form.querySelector("#language")?.value ?? "";
  const asked = form.querySelector("[name=schedule_kind]").selectedOptions[0]?.dataset.asks;
  const isShown = { script: language !== "" && language !== "FLOW", flow: language === "FLOW", handler: language === "", cron: asked === "cron", seconds: asked === "seconds", at: asked === "at", workday: asked === "workday" };
  for (const [name, is] of Object.entries(isShown))
    for (const part of form.querySelectorAll(`.for-${name}`)) part.hidden = !is;
}
