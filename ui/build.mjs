// Bundles the dashboard into the Python package that serves it: a page, a script and a style.
import { build } from "esbuild";
import { copyFile, mkdir, rm } from "node:fs/promises";

const out = new URL("../src/windlass/web/static/", import.meta.url).pathname;

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  entryPoints: { page: new URL("src/main.tsx", import.meta.url).pathname },
  outdir: out,
  bundle: true,
  minify: true,
  legalComments: "eof", // the licences of what is bundled stay with it
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
await copyFile(new URL("src/index.html", import.meta.url), `${out}index.html`);
