// Loaded on a job's form.
import { showAdvice } from "../advice.js";
import { buildCron } from "../cronbuilder.js";
import { showFields } from "../jobfields.js";

showAdvice();
buildCron();
showFields();
for (const button of document.querySelectorAll(".without-script")) button.hidden = true;
