// On the form of a job.
import { showAdvice } from "../advice.js";

showAdvice();
for (const button of document.querySelectorAll(".without-script")) button.hidden = true;
