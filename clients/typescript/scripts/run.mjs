// What the scripts share.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);

/** The package's folder, where all scripts work. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));
process.chdir(root);

/** The TypeScript compiler. */
export const tsc = require.resolve("typescript/lib/tsc.js");

/** Runs a program with our output; ends with its status when it fails. */
export function run(program, args, options = {}) {
  const { status, error } = spawnSync(program, args, { stdio: "inherit", ...options });
  if (error) console.error(error.message);
  if (status !== 0) process.exit(status ?? 1);
}

/** npm, run so that it does not ask anything of the network that it can avoid. */
export function npm(args, options = {}) {
  const out = spawnSync("npm", args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], ...options });
  if (out.status !== 0) process.exit(out.status ?? 1);
  return out.stdout;
}

export { join };
