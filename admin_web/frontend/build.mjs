// Builds src/entries/<name>.js into ../static/bundle/<name>-<hash>.js, and a manifest of these names.
import { build } from "esbuild";
import { readdirSync, readFileSync, rmSync, writeFileSync, renameSync, mkdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "static", "bundle");
const entries = readdirSync(join(here, "src", "entries")).map((name) => join(here, "src", "entries", name));

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
// The editor is a module: it loads the code for a language when a script in it is opened.
const isModule = (path) => basename(path) === "editor.js";
const common = {
  outdir: out,
  entryNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  target: ["es2022"],
  metafile: true,
  legalComments: "linked",
  logLevel: "warning",
};
const results = await Promise.all([
  build({ ...common, format: "iife", entryPoints: entries.filter((path) => !isModule(path)) }),
  build({ ...common, format: "esm", splitting: true, chunkNames: "part-[name]-[hash]", entryPoints: entries.filter(isModule) }),
]);
const outputs = results.flatMap((result) => Object.entries(result.metafile.outputs));
const manifest = {};
for (const [path, made] of outputs) {
  const file = basename(path);
  if (made.entryPoint && entries.some((entry) => basename(entry) === basename(made.entryPoint))) manifest[basename(made.entryPoint)] = file;
  if (made.cssBundle) manifest[basename(made.entryPoint).replace(/\.js$/, ".css")] = basename(made.cssBundle);
}
for (const [path] of outputs) {
  const text = readFileSync(path);
  writeFileSync(`${path}.gz`, gzipSync(text, { level: 9 }));
  writeFileSync(`${path}.br`, brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: text.length } }));
}
// Written in one step: the console may be starting and reading it.
const path = join(out, "manifest.json");
writeFileSync(path + ".new", JSON.stringify(manifest, null, 1));
renameSync(path + ".new", path);
