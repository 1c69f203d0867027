// Builds dist when another folder installs this one (`npm install ./clients/typescript`), and before `npm pack`. npm does
// not install the compiler then: it is fetched as package-lock.json has it, for this build only.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
process.exitCode = installed("typescript") ? build() : withCompiler(build);

function installed(name) {
  try {
    return Boolean(createRequire(join(root, "package.json")).resolve(name));
  } catch {
    return false;
  }
}

function withCompiler(work) {
  const dir = mkdtempSync(join(tmpdir(), "purserpay-"));
  try {
    const compiler = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages["node_modules/typescript"];
    const wanted = { dependencies: { typescript: compiler.version } };
    const packages = { "": wanted, "node_modules/typescript": compiler };
    writeFileSync(join(dir, "package.json"), JSON.stringify(wanted));
    writeFileSync(join(dir, "package-lock.json"), JSON.stringify({ lockfileVersion: 3, requires: true, packages }));
    const settings = ["--prefix", dir, "--global=false", "--package-lock=true", "--ignore-scripts", "--no-audit", "--no-fund"];
    const failed = npm(["ci", ...settings], dir);
    if (failed) console.error("purserpay is built by TypeScript, which could not be fetched from npm's registry");
    return failed || work({ NODE_PATH: join(dir, "node_modules") });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function build(env = {}) {
  return run(process.execPath, [join(root, "scripts", "build.mjs")], root, env);
}

/** npm as it runs this script. */
function npm(args, cwd) {
  const path = process.env["npm_execpath"] ?? "";
  return path.endsWith("npm-cli.js") ? run(process.execPath, [path, ...args], cwd) : run("npm", args, cwd);
}

function run(program, args, cwd, env = {}) {
  const { status, error } = spawnSync(program, args, { cwd, stdio: "inherit", env: { ...process.env, ...env } });
  if (error) console.error(error.message);
  return status ?? 1;
}
