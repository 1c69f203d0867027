// Builds dist: ES modules and CommonJS, each with its own types.
import { rmSync, writeFileSync } from "node:fs";
import { run, tsc } from "./run.mjs";

rmSync("dist", { recursive: true, force: true });
const common = ["-p", "tsconfig.json", "--noEmit", "false", "--declaration", "--rootDir", "src"];
run(process.execPath, [tsc, ...common, "--outDir", "dist/esm"]);
run(process.execPath, [
  ...[tsc, ...common, "--outDir", "dist/cjs", "--module", "commonjs", "--moduleResolution", "node10"],
  ...["--verbatimModuleSyntax", "false"],
]);
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
