// The oldest Node that package.json declares, and the newest of each line since, as npm ships them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { environment, journaled, open } from "./shop.js";
import { startWorld, type World } from "./world.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const installed = `${root}/runtimes/node_modules`;
const versions = existsSync(installed) ? readdirSync(installed).filter((name) => /^node-[0-9]+$/.test(name)) : [];
const missing = process.env["CI"] !== "true" && versions.length === 0 ? "no Node is installed: make test-runtimes installs them, on Linux with x64" : false;

describe("Node", { skip: missing, concurrency: 2 }, () => {
  let world: World;
  before(async () => {
    assert(versions.length > 0);
    world = await startWorld();
  });
  after(() => {
    world.close();
  });
  for (const version of versions) {
    for (const program of ["fetch.mjs", "axios.mjs"]) {
      it(`${version.slice(5)} runs ${program}, which pays once though an answer is lost`, { timeout: 120_000 }, async (t) => {
        const node = `${installed}/${version}/bin/node`;
        const shop = await open(world.sellers["sandbox"] ?? "", 1);
        t.after(() => shop.close());
        const { code, out, err } = await run(node, program, environment(world, shop));
        assert.equal(code, 0, err);
        assert.match(out, /clear/);
        assert.deepEqual([shop.payments.length, (await journaled(world, shop)).length], [2, 1]);
        const refused = await run(node, program, environment(world, shop, "0.001 USDC"));
        assert.match(refused.err, /maxAmount is 1000 \(0\.001 USDC\)/);
        assert.equal(shop.payments.length, 2);
      });
    }
  }
});

async function run(node: string, program: string, given: Record<string, string>): Promise<{ code: number; out: string; err: string }> {
  const env = { ...process.env, ...given };
  const child = spawn(node, [`${root}/examples/frameworks/${program}`], { env, stdio: ["ignore", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (text: Buffer) => (out += text.toString()));
  child.stderr.on("data", (text: Buffer) => (err += text.toString()));
  const [code] = (await once(child, "close")) as [number];
  return { code, out, err };
}
