// Loaded on a job's page.
import "uplot/dist/uPlot.min.css";
import { drawDurations } from "../durations.js";
import { showOwnJob } from "../family.js";

for (const place of document.querySelectorAll("[data-durations]")) drawDurations(place);
showOwnJob();
