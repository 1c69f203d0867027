// Each framework that README.md names: its program buys from each seller, through each fault, and is refused.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { createClient } from "purserpay";
import { type Program, startProgram, type Told } from "./program.js";
import { environment, open, type Shop } from "./shop.js";
import { relay, startWorld, type World } from "./world.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const programs = readdirSync(`${root}/examples/frameworks`).sort();
// What happens to HTTP clients elsewhere is in scenarios.test.ts.
const httpClients = new Set(["axios.mjs", "fetch.mjs", "got.mjs", "ky.mjs", "node-fetch.mjs", "undici.mjs"]);
const sellers = ["sandbox", "official-v1", "official-v2"];
const mended = ["paid-request-lost:1", "paid-503:1", "pay-answer-lost:1"];
const timeout = 120_000;

describe("frameworks", { concurrency: true }, () => {
  let world: World;
  before(async () => {
    world = await startWorld();
  });
  after(() => {
    world.close();
  });

  for (const name of programs) {
    describe(name, { concurrency: 1 }, () => {
      let own: World;
      let program: Program;
      before(async () => {
        own = await world.purse();
        program = startProgram(name);
      });
      after(() => program.close());

      /** Runs the program, and holds what it spends to what is expected. */
      async function run(seller: string, { fault = "", lost = 0, maxAmount = "0.05 USDC", pays = 1 }): Promise<Told & { shop: Shop }> {
        const atPurser = fault.startsWith("pay-");
        const door = await relay(own.sellers[seller] ?? "", atPurser ? "" : fault);
        const purser = await relay(own.api, atPurser ? fault : "");
        const shop = await open(door.url, lost);
        try {
          const [balance, payments] = [await own.balance(), await journaled(own)];
          const told = await program.run(environment({ key: own.key, api: purser.url }, shop, maxAmount));
          assert.equal(balance - (await own.balance()), BigInt(pays * 10_000), "what left the wallet");
          assert.equal((await journaled(own)) - payments, pays, "payments journaled");
          assert.equal(new Set(shop.payments).size, pays, "payments that the seller saw");
          assert(!told.err?.includes(own.key), "the API key is shown");
          return { ...told, shop };
        } finally {
          for (const server of [shop, purser, door]) server.close();
        }
      }

      const cases = httpClients.has(name) ? [] : sellers;
      for (const seller of ["sandbox", ...cases.slice(1)]) {
        for (const fault of ["", ...(cases.length > 0 ? mended : [])]) {
          it(`buys from ${seller}${fault && `, ${fault}`}`, { timeout }, async () => {
            const { out, err } = await run(seller, { fault });
            assert.match(out, /clear/, err);
          });
        }

        it(`is refused with a reason, ${seller}`, { timeout }, async () => {
          const { err } = await run(seller, { maxAmount: "0.001 USDC", pays: 0 });
          assert.match(err ?? "", /The seller asks for 10000, maxAmount is 1000 \(0\.001 USDC\)/);
        });
      }

      it("pays once when an answer is lost", { timeout }, async () => {
        const { out, err, shop } = await run("sandbox", { lost: 1 });
        assert.match(out, /clear/, err);
        assert.equal(shop.payments.length, 2);
      });

      for (const seller of cases) {
        // The sellers themselves refuse a payment that they took before. SDKs must not try it once more.
        it(`pays once when ${seller} has forgotten what it sold`, { timeout }, async () => {
          const { err, shop } = await run(seller, { fault: "paid-answer-lost:1" });
          assert.match(err ?? "", /The seller answered the paid request with another 402/);
          assert.equal(shop.payments.length, 2);
        });
      }

      it("is short, and README.md has it", () => {
        const code = readFileSync(`${root}/examples/frameworks/${name}`, "utf8");
        assert(code.split("\n").filter((line) => line !== "" && !/^(import|\/\/)/.test(line)).length <= 10);
        assert(readFileSync(`${root}/README.md`, "utf8").includes(`examples/frameworks/${name}`));
      });
    });
  }
});

const journaled = async ({ key, api }: World) => (await createClient({ apiKey: key, baseUrl: api }).payments.list({ limit: 500 })).length;
