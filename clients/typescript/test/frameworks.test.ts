// Each framework that README.md names: a real SDK buys from the sandbox's seller, is refused, and loses an answer.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { journaled, open, run } from "./shop.js";
import { startWorld, type World } from "./world.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const programs = readdirSync(`${root}/examples/frameworks`).sort();

describe("frameworks", { concurrency: 2 }, () => {
  let world: World;
  before(async () => {
    world = await startWorld();
  });
  after(() => {
    world.close();
  });

  for (const program of programs) {
    it(`${program} buys`, { timeout: 120_000 }, async (t) => {
      const shop = await open(world.sellers["sandbox"] ?? "", 0);
      t.after(() => shop.close());
      const { code, out, err } = await run(program, world, shop);
      assert.equal(code, 0, err);
      assert.match(out, /clear/);
      assert.deepEqual((await journaled(world, shop)).map((payment) => payment.amount), ["10000"]);
    });

    it(`${program} is refused with a reason`, { timeout: 120_000 }, async (t) => {
      const shop = await open(world.sellers["sandbox"] ?? "", 0);
      t.after(() => shop.close());
      const { code, err } = await run(program, world, shop, { maxAmount: "0.001 USDC" });
      assert.notEqual(code, 0);
      assert.match(err, /The seller asks for 10000, maxAmount is 1000 \(0\.001 USDC\)/);
      assert.equal(shop.payments.length, 0);
      assert.equal((await journaled(world, shop)).length, 0);
      assert(!err.includes(world.key), "the API key is shown");
    });

    it(`${program} pays once when an answer is lost`, { timeout: 120_000 }, async (t) => {
      const shop = await open(world.sellers["sandbox"] ?? "", 1);
      t.after(() => shop.close());
      const { code, out, err } = await run(program, world, shop);
      assert.equal(code, 0, err);
      assert.match(out, /clear/);
      assert.equal(shop.payments.length, 2);
      assert.equal(new Set(shop.payments).size, 1);
      assert.equal((await journaled(world, shop)).length, 1);
    });

    it(`${program} is short, and README.md has it`, () => {
      const code = readFileSync(`${root}/examples/frameworks/${program}`, "utf8");
      assert(code.split("\n").filter((line) => line !== "" && !/^(import|\/\/)/.test(line)).length <= 10);
      assert(readFileSync(`${root}/README.md`, "utf8").includes(`examples/frameworks/${program}`));
    });
  }
});
