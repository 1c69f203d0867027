// The examples of the README, run as they are.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { apiKey, cut, fakePurser, json, paymentsOf, seller } from "./fake.js";
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

  for (const name of ["plain", "axios", "langchain-tool"]) {
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

  it("openai, whose own retries cost nothing", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (req, res, body, n) => {
      if (n <= 2) return cut(req, res, body, n); // this client's resend is lost as well: it is openai that repeats
      const message = { role: "assistant", content: `hello from ${(JSON.parse(body) as { model: string }).model}` };
      return json(res, 200, { id: "1", object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop" }] });
    });
    assert.equal(await run("openai", [`${shop.url}/v1`], purser.url, apiKey), "hello from any\n");
    assert.equal(paymentsOf(shop).length, 3);
    assert.equal(new Set(paymentsOf(shop)).size, 1);
    assert.equal(shop.got[0]?.url, "/v1/chat/completions");
  });
});
