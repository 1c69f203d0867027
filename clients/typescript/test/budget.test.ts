// What one client may spend in its life.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createClient, isPurserError, wrapFetch } from "purserpay";
import { testPurser, testSeller } from "purserpay/testing";
import { Budget } from "../dist/esm/budget.js";
import { largestOf } from "../dist/esm/caps.js";
import { b64, failure } from "./fake.js";

const url = "https://api.example.com/report";
const goods = () => testSeller(() => new Response("goods"));

describe("a budget", { concurrency: true }, () => {
  it("is spent exactly, whatever comes at once", async () => {
    const purser = testPurser();
    const fetch = wrapFetch(goods(), { ...purser.options, budget: "0.035 USDC" });
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, (_, n) => fetch(`${url}/${n}`)));
    assert.equal(outcomes.filter((o) => o.status === "fulfilled").length, 3);
    assert.equal(purser.payments.length, 3);
    const error = await failure(fetch(url));
    assert(isPurserError(error) && error.code === "refused-by-caller" && error.rule === "budget");
    assert.match(error.message, /0\.01 USDC would pass this client's budget of 0\.035 USDC; 0\.005 USDC left/);
    assert.equal(error.moneyMayHaveMoved, false);
  });

  it("counts a repeat once", async () => {
    const purser = testPurser();
    const seller = goods();
    const fetch = wrapFetch(seller, { ...purser.options, budget: 15_000n, resends: 0 });
    seller.loseAnswers(2);
    for (let n = 0; n < 2; n++) assert.equal((await failure(fetch(url))).code, "unclear");
    assert.equal((await fetch(url)).status, 200);
    assert.equal((await failure(fetch(url))).rule, "budget");
    assert.equal(purser.payments.length, 1);
  });

  it("gets back what came to nothing", async () => {
    const purser = testPurser();
    const client = createClient({ ...purser.options, fetch: goods(), budget: "0.01 USDC" });
    purser.decline();
    for (let n = 0; n < 3; n++) assert.equal((await failure(client.get(`${url}/${n}`))).code, "declined");
    purser.allow();
    const controller = new AbortController();
    const { purserFetch } = purser.options;
    const refusedConnection = () => Promise.reject(new TypeError("away", { cause: { code: "ECONNREFUSED" } }));
    let reached = false;
    const moody = createClient({
      ...{ ...purser.options, fetch: goods(), budget: "0.01 USDC" },
      purserFetch: (input, init) => (reached ? purserFetch(input, init) : refusedConnection()),
    });
    assert.equal((await failure(moody.get(`${url}/a`))).code, "purser-unreachable");
    reached = true;
    assert.equal((await moody.get(`${url}/b`)).status, 200);
    assert.equal((await client.get(url, { signal: controller.signal })).status, 200);
    assert.equal((await failure(client.get(`${url}/4`))).rule, "budget");
    assert.equal((await failure(moody.get(`${url}/a`))).rule, "budget", "what is remembered stays so");
  });

  it("wants amounts, and signatures for them", async () => {
    const purser = testPurser();
    const asks = (amount: string) => () => {
      const entry = { network: "eip155:8453", amount, asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bda02913", payTo: "0x1" };
      const headers = { "PAYMENT-REQUIRED": b64({ x402Version: 2, accepts: [entry] }) };
      return Promise.resolve(new Response("{}", { status: 402, headers }));
    };
    assert.equal((await failure(wrapFetch(asks("1.5"), { ...purser.options, budget: 5n })(url))).rule, "budget");
    assert.throws(() => wrapFetch(asks("1"), { ...purser.options, budget: "5 EUR" }), /budget must be/);
    const signsOthers = { ...purser.options, purserFetch: () => Promise.resolve(Response.json({ paymentSignature: b64({}) })) };
    assert.equal((await failure(wrapFetch(asks("1"), { ...signsOthers, budget: 5n })(url))).rule, "signed-terms");
  });

  it("sets the largest of several offers aside, and whatever is asked without one", async () => {
    const amounts = (...all: string[]) => ({ version: 2 as const, source: "header" as const, sent: "", error: "", offers: all.map(offer) });
    const offer = (amount: string) => ({ network: "", scheme: "", asset: "", payTo: "", amount });
    for (const [asked, largest] of [[["5", "3"], 5n], [["3", "5"], 5n], [["x"], 0n], [[], 0n]] as const) {
      assert.equal(largestOf(amounts(...asked)), largest);
    }
  });

  it("recognizes 4096 keys", () => {
    const budget = new Budget(10_000n);
    for (let n = 0; n < 4097; n++) assert(budget.take(String(n), 1n));
    budget.settle("0", 0n);
    budget.settle("1", 3n);
    assert.equal(budget.left, 10_000n - 4099n);
    assert(new Budget(undefined).take("k", 5n));
  });
});
