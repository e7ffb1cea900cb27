// Loaded on a job's form.
import { showAdvice } from "../advice.js";
import { buildCron } from "../cronbuilder.js";

showAdvice();
buildCron();
for (const button of document.querySelectorAll(".without-script")) button.hidden = true;
