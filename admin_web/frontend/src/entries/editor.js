// Loaded on a script's page.
import { openEditor } from "../script_editor.js";

for (const area of document.querySelectorAll("[data-script] textarea[data-language]")) openEditor(area);
