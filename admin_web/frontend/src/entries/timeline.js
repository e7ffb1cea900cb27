// On the timeline.
import { walkTimeline } from "../timeline.js";

walkTimeline();
