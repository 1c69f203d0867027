// The examples of the README, run as they are.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { startWorld, type World } from "./world.js";

const examples = fileURLToPath(new URL("../examples", import.meta.url));

async function run(name: string, urls: string[], PURSER_URL: string, PURSER_KEY: string): Promise<string> {
  const env = { ...process.env, PURSER_URL, PURSER_KEY };
  const { stdout } = await promisify(execFile)(process.execPath, [`${examples}/${name}.mjs`, ...urls], { env, timeout: 60_000 });
  return stdout;
}

describe("examples", () => {
  let world: World;
  before(async () => {
    world = await startWorld();
  });
  after(() => {
    world.close();
  });

  for (const name of ["plain", "langchain-tool"]) {
    it(name, async () => {
      const before = await world.balance();
      const urls = [`${world.sellers["official-v2"]}/paid`, `${world.sellers["sandbox"]}/weather`];
      const out = await run(name, urls, world.api, world.key);
      assert.match(out, /sunny/);
      if (name === "langchain-tool") assert.match(out, /Not bought \(refused-by-caller\)/);
      // purser may name the transaction after the answer is there; what was paid is on chain.
      if (name === "plain") assert.match(out, /^paid with (0x[0-9a-f]{64})?$/m);
      assert.equal(before - (await world.balance()), 10_000n);
    });
  }
});
