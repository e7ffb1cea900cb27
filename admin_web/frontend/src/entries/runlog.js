// Loaded on the page of a run's log.
import { followLog } from "../runlog.js";

followLog();
