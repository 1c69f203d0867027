// The types as programs see them: by ES modules, CommonJS and bundlers, with the DOM's types and with Node's alone.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { root, run, tsc } from "./run.mjs";

const strict = { strict: true, noEmit: true, skipLibCheck: false, exactOptionalPropertyTypes: true, target: "ES2022" };
const ways = {
  "ES module, Node's types": { module: "nodenext", lib: ["ES2022"], types: ["node"] },
  "ES module, got, undici, OpenTelemetry": { module: "nodenext", lib: ["ES2022", "DOM"], types: ["node"], skipLibCheck: true, files: ["wrappers"] },
  "CommonJS, Node's types": { module: "nodenext", lib: ["ES2022"], types: ["node"], commonjs: true },
  "bundler, DOM": { ...{ module: "esnext", moduleResolution: "bundler", types: [] }, lib: ["ES2022", "DOM", "DOM.AsyncIterable"], files: ["fetch", "axios"] },
};
const dir = `${root}/.types`; // inside the package, so that it finds itself by its name
for (const [name, { commonjs, files = ["fetch"], ...options }] of Object.entries(ways)) {
  mkdirSync(dir, { recursive: true });
  const extension = commonjs ? "cts" : "ts";
  for (const file of files) {
    writeFileSync(`${dir}/${file}.${extension}`, `${await source(file)}`);
  }
  const include = files.map((file) => `${file}.${extension}`);
  writeFileSync(`${dir}/tsconfig.json`, JSON.stringify({ compilerOptions: { ...strict, ...options }, include }));
  run(process.execPath, [tsc, "-p", dir]);
  rmSync(dir, { recursive: true });
  console.log(`types: ${name}: fit`);
}

async function source(name) {
  const { readFile } = await import("node:fs/promises");
  return readFile(`${root}/test/types/${name}.ts`, "utf8");
}
