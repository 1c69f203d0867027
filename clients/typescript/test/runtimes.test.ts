// The packed package in Deno, in Bun and in the runtime of an edge: the shared scenarios, and giving up, which needs a signal
// and a timer of the runtime's own.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createClient, type PaymentOptions } from "purserpay";
import { type Agent, programOf, removeWorkshop, runtimes, startAgent, workshop } from "./runtimes.js";
import { runScenario, type Scenario, scenarios } from "./scenario.js";
import { relay, startWorld, type World } from "./world.js";

const get = { method: "GET", headers: [] };
const patience = 400; // milliseconds until an agent gives up on a purser that keeps silent
const paidPatience = 5000; // by then the payment has to be on its way

describe("the packed package", { concurrency: true }, () => {
  for (const [name, runtime] of Object.entries(runtimes)) {
    const missing = process.env["CI"] !== "true" && programOf(runtime) === undefined ? `${name} is not installed: make test-runtimes installs them` : false;
    describe(`in ${name}`, { skip: missing, concurrency: 1 }, () => {
      let dir: string;
      let world: World;
      let agent: Agent;

      before(async () => {
        dir = await workshop();
        world = await startWorld();
        agent = await startAgent(runtime, dir);
      });
      after(() => {
        agent.close();
        world.close();
        removeWorkshop(dir);
      });

      const make = (options: PaymentOptions) => (url: string, request: Scenario["request"], calls: number) =>
        agent({ options, url, request, calls });
      for (const s of scenarios) {
        it(s.name, { timeout: 120_000 }, async () => {
          // These runtimes send a request again by themselves, payment and all, when a connection breaks that was used before.
          // For one call the outcome is the same; of several it could not be told which one meets the fault.
          await runScenario(world, s, make, s.fault === undefined || s.calls === 1);
        });
      }

      it("a purchase knows its payment, which settles", { timeout: 60_000 }, async () => {
        const options = { apiKey: world.key, baseUrl: world.api, receiptWait: 20_000, maxAmount: "10000" };
        for (const seller of ["official-v1", "official-v2"]) {
          const [told] = await agent({ options, url: `${world.sellers[seller]}/paid`, request: get, calls: 1 });
          assert.deepEqual([told?.status, told?.state], [200, "settled"], JSON.stringify(told));
        }
      });

      it("an abort while purser thinks costs nothing", { timeout: 60_000 }, async () => {
        const purser = await relay(world.api, "pay-request-held:1");
        try {
          const before = await world.balance();
          const options = { apiKey: world.key, baseUrl: purser.url };
          const url = `${world.sellers["official-v2"]}/paid`;
          const [told] = await agent({ options, url, request: get, calls: 1, abortAfter: patience, resume: true });
          assert.deepEqual([told?.code, told?.name], [undefined, "TimeoutError"], JSON.stringify(told));
          assert.equal(await world.balance(), before);
        } finally {
          purser.close();
        }
      });

      it("an abort after the payment was sent is unclear, and resumes with the same payment", { timeout: 60_000 }, async () => {
        // Idle connections end after five seconds as well: without any, nothing comes of that.
        const shop = await relay(world.sellers["official-v2"] ?? "", "paid-request-held:1", { keepAlive: false });
        const api = createClient({ apiKey: world.key, baseUrl: world.api });
        try {
          const before = await world.balance();
          const payments = (await api.payments.list({ limit: 500 })).length;
          const options = { apiKey: world.key, baseUrl: world.api, receiptWait: 20_000 };
          const order = { options, url: `${shop.url}/paid`, request: get, calls: 1, abortAfter: paidPatience, resume: true };
          const [told] = await agent(order);
          assert.equal(told?.code, "unclear", JSON.stringify(told));
          assert(told.paymentId);
          assert.deepEqual([told.resumed?.status, told.resumed?.state], [200, "settled"], JSON.stringify(told));
          assert.equal(before - (await world.balance()), 10_000n);
          assert.equal((await api.payments.list({ limit: 500 })).length - payments, 1);
          assert.equal(shop.payments.length, 2);
          assert.equal(new Set(shop.payments.map((p) => p.value)).size, 1, "the same payment");
        } finally {
          shop.close();
        }
      });
    });
  }
});
