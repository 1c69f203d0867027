// The doubles of purser and of a seller that programs test themselves with.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createClient, paymentOf, purserErrorOf, wrapFetch } from "purserpay";
import { testPurser, testSeller } from "purserpay/testing";
import { failure } from "./fake.js";

const url = "https://api.example.com/report";

describe("test doubles", () => {
  it("sell, and tell what was paid", async () => {
    const purser = testPurser();
    const seller = testSeller(async (request) => Response.json({ got: await request.text() }, { headers: { "PAYMENT-RESPONSE": "e30=" } }));
    const fetch = wrapFetch(seller, { ...purser.options, maxAmount: "0.05 USDC", task: "reports" });
    const answer = await fetch(url, { method: "POST", body: "text" });
    assert.deepEqual(await answer.json(), { got: "text" });
    assert.equal(paymentOf(answer)?.id, "test-1");
    const [payment] = purser.payments;
    assert.deepEqual([payment?.url, payment?.amount, payment?.task, payment?.settlement, payment?.receipt], [url, "10000", "reports", "seller", "e30="]);
    assert.deepEqual(seller.requests.map((request) => request.method), ["POST", "POST"]);
  });

  it("refuse, lose answers and never pay twice for them", async () => {
    const purser = testPurser();
    const seller = testSeller(() => new Response("goods"), { amount: 5n });
    const fetch = wrapFetch(seller, { ...purser.options, resends: 0 });
    purser.decline({ rule: "daily", detail: "enough for today" });
    const refused = purserErrorOf(await failure(fetch(url)));
    assert(refused?.code === "declined" && refused.rule === "daily" && refused.message.includes("enough for today"));
    purser.allow();
    purser.loseAnswers(1);
    assert.equal(await (await fetch(url)).text(), "goods");
    seller.loseAnswers(1);
    assert.equal((await failure(fetch(url))).code, "unclear");
    assert.equal(await (await fetch(url)).text(), "goods");
    assert.deepEqual(purser.payments.map((payment) => payment.amount), ["5", "5"]);
  });

  it("quote, and answer the rest as purser does", async () => {
    const purser = testPurser();
    const client = createClient({ ...purser.options, fetch: testSeller(() => new Response("goods")), settlement: "payer" });
    const dry = purserErrorOf(await failure(client.get(url, { dryRun: true })));
    assert(dry?.code === "dry-run" && dry.quote.price === "0.01 USDC");
    purser.decline();
    assert.equal((await failure(client.get(url, { dryRun: true }))).code, "declined");
    purser.allow();
    assert.equal(purser.payments.length, 0);
    assert.equal((await client.get(url, { idempotencyKey: "k" })).status, 200);
    assert.equal((await failure(client.get(`${url}/other`, { idempotencyKey: "k" }))).code, "idempotency-conflict");
    assert.equal((await failure(client.pay({ paymentRequiredHeader: "e30=" }))).code, "purser-unreachable");
    assert.equal((await failure(client.wallets.list())).code, "request-refused");
  });
});
