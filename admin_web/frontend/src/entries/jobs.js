// On the list of jobs and the form of a job.
import { tickAll } from "../ticks.js";
import { showAdvice } from "../advice.js";

tickAll();
showAdvice();
for (const button of document.querySelectorAll(".without-script")) button.hidden = true;
