// On the page of a script.
import { openEditor } from "../script_editor.js";

for (const area of document.querySelectorAll("[data-script] textarea[data-language]")) openEditor(area);
