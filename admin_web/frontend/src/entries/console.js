// Loaded on every page.
import "htmx.org";
import { askQuestions } from "../confirm.js";
import { watchConditions } from "../conditions.js";
import { copyTexts } from "../copy.js";
import { keepDrafts } from "../drafts.js";
import { findAnything } from "../find.js";
import { refreshLiveParts } from "../live.js";
import { keepFragment } from "../sign_in.js";
import { switchThemeInPlace } from "../theme.js";
import { selectAll } from "../select_all.js";
import { tellTimeZone } from "../zone.js";

tellTimeZone();
switchThemeInPlace();
refreshLiveParts();
askQuestions();
watchConditions();
keepDrafts();
keepFragment();
selectAll();
findAnything();
copyTexts();
