// Builds src/<name>.js into ../static/bundle/<name>-<hash>.js, and a manifest that tells which.
import { build } from "esbuild";
import { readdirSync, rmSync, writeFileSync, renameSync, mkdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "static", "bundle");
const entries = readdirSync(join(here, "src", "entries")).map((name) => join(here, "src", "entries", name));

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const result = await build({
  entryPoints: entries,
  outdir: out,
  entryNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  metafile: true,
  legalComments: "linked",
  logLevel: "warning",
});
const manifest = {};
for (const [path, made] of Object.entries(result.metafile.outputs)) {
  const file = basename(path);
  if (made.entryPoint) manifest[basename(made.entryPoint)] = file;
  if (made.cssBundle) manifest[basename(made.entryPoint).replace(/\.js$/, ".css")] = basename(made.cssBundle);
}
// Whole or not at all: the console looks for it at its start.
const path = join(out, "manifest.json");
writeFileSync(path + ".new", JSON.stringify(manifest, null, 1));
renameSync(path + ".new", path);
