// On every page.
import "htmx.org";
import { closeQuestions } from "../confirm.js";
import { refreshLiveParts } from "../live.js";
import { switchThemeInPlace } from "../theme.js";
import { tickAll } from "../ticks.js";
import { tellTimeZone } from "../zone.js";

tellTimeZone();
switchThemeInPlace();
refreshLiveParts();
closeQuestions();
tickAll();
