// What the package adds to a page: bundled, minified, compressed. Fails above the budget.
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { root } from "./run.mjs";

const budget = 19_000; // bytes, compressed: 1,000 know calls of MCP, 800 pay by MPP
for (const [name, code] of Object.entries({
  wrapFetch: 'export { wrapFetch } from "./dist/esm/index.js"',
  "all of purserpay": 'export * from "./dist/esm/index.js"',
  "purserpay/axios": 'export * from "./dist/esm/axios.js"',
})) {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: root },
    ...{ bundle: true, minify: true, format: "esm", platform: "browser", target: "es2022", write: false },
  });
  const [{ contents }] = outputFiles;
  const compressed = gzipSync(contents, { level: 9 }).length;
  console.log(`size: ${name}: ${contents.length} bytes minified, ${compressed} with gzip`);
  if (compressed > budget) {
    console.error(`more than ${budget} bytes`);
    process.exitCode = 1;
  }
}
