// Runs the packed package in other runtimes, and says what they weigh and how long they took.
import { existsSync, readdirSync, statSync } from "node:fs";
import { join, root, run } from "./run.mjs";

const dir = `${root}/runtimes/node_modules`;
const sizeOf = (path) => {
  const s = statSync(path);
  return s.isDirectory() ? readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0) : s.size;
};
if (existsSync(dir)) console.log(`runtimes: ${Math.round(sizeOf(dir) / 1e6)} MB installed`);
else console.log("runtimes: none are installed, so their tests skip: make test-runtimes installs them");
const started = performance.now();
run(process.execPath, ["scripts/test.mjs", "runtimes", "nodes"]);
console.log(`runtimes: tried in ${Math.round((performance.now() - started) / 1000)} s`);
