// Loaded on the timeline.
import { walkTimeline } from "../timeline.js";

walkTimeline();
