// Runs the compiled tests, and holds the coverage to its bounds: what decides about money is covered in every branch.
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { run } from "./run.mjs";

const c8 = createRequire(import.meta.url).resolve("c8/bin/c8.js");
// Other runtimes run by themselves (npm run test:runtimes): their programs are large, and what they cover is not counted.
const apart = ["runtimes.test.js", "nodes.test.js"];
const only = process.argv.slice(2);
const files = readdirSync(".test")
  .filter((f) => f.endsWith(".test.js") && (only.length === 0 ? !apart.includes(f) : only.some((o) => f.startsWith(o))))
  .map((f) => `.test/${f}`);
// The tests wait for blocks more than for a processor.
const node = [process.execPath, "--test", "--test-concurrency=4", "--test-reporter=spec", ...files];
if (only.length > 0) run(node[0], node.slice(1));
else {
  const all = ["--include", "dist/esm/**", "--exclude", "test/**"];
  run(process.execPath, [c8, ...all, "--reporter", "text", "--check-coverage", "--lines", "95", "--branches", "90", ...node]);
  const money = ["purchase", "budget", "caps", "answers", "memory", "challenge", "redirects", "asked", "jobs", "toolcall", "mpp"].flatMap((f) => ["--include", `dist/esm/${f}.js`]);
  run(process.execPath, [c8, "check-coverage", ...money, "--per-file", "--lines", "100", "--branches", "100"]);
}
