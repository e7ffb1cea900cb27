// On the page of one job.
import "uplot/dist/uPlot.min.css";
import { drawDurations } from "../durations.js";

for (const place of document.querySelectorAll("[data-durations]")) drawDurations(place);
