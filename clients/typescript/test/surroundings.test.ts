// What surrounds a payment: callbacks, logs, spans, receipts in the background, and times of one call.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { createClient, paymentOf, type PaymentOptions, type PaymentSummary, purserErrorOf, type Tracer, wrapFetch } from "purserpay";
import { wrap as wrapAxios } from "purserpay/axios";
import { wrap as wrapGot } from "purserpay/got";
import { wrap as wrapUndici } from "purserpay/undici";
import axios from "axios";
import got from "got";
import { request } from "undici";
import { Receipts } from "../dist/esm/receipts.js";
import { apiKey, challenge, cut, deliver, failure, fakePurser, type FakePurser, type Handler, json, paymentId, paymentsOf, payTo, quick, receipt, seller } from "./fake.js";

const logged = () => {
  const lines: string[] = [];
  const add = (message: string) => void lines.push(message);
  return { lines, logger: { info: add, warn: add } };
};

describe("what is told of a payment", { concurrency: true }, () => {
  it("is told once for each paid answer, each rejection and each unclear outcome", async (t) => {
    const purser = await fakePurser(t);
    const told: PaymentSummary[] = [];
    const { lines, logger } = logged();
    const options: PaymentOptions = { apiKey, baseUrl: purser.url, ...quick, task: "t", resends: 0, onPayment: (info) => told.push(info), logger };
    const fetch = wrapFetch(globalThis.fetch, options);
    const shop = await seller(t);
    const answer = await fetch(shop.url);
    assert.deepEqual(told, [paymentOf(answer)]);
    const { id, amount, state, transaction, task, host, payTo: payee } = told[0] ?? assert.fail();
    assert.deepEqual([id, amount, state, transaction, task, payee], [paymentId, "10000", "settled", "0xab", "t", payTo]);
    assert.deepEqual(lines, [`purser: payment ${paymentId} of 0.01 USDC to ${payTo} at ${host}`]);
    const lost = await seller(t, cut);
    assert.equal((await failure(fetch(lost.url))).code, "unclear");
    const rejects = await seller(t, (_req, res) => json(res, 402, {}, { "PAYMENT-REQUIRED": challenge() }));
    assert.equal((await failure(fetch(rejects.url))).code, "rejected");
    assert.equal((await failure(fetch(shop.url, { maxAmount: 1n }))).code, "refused-by-caller");
    assert.deepEqual(told.map((info) => info.host), [shop, lost, rejects].map((s) => new URL(s.url).host));
  });

  it("loses no answer, whatever the program does with it", async (t) => {
    const purser = await fakePurser(t, undefined, undefined);
    const shop = await seller(t);
    const broken = () => {
      throw new Error("broken");
    };
    const { lines, logger } = logged();
    const ways: Partial<PaymentOptions>[] = [
      { onPayment: broken, logger },
      { onPayment: () => Promise.reject(new Error("broken")), logger },
      { onPayment: broken, logger: { info: broken, warn: broken }, tracer: { startSpan: broken } },
    ];
    for (const way of ways) assert.equal((await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick, ...way })(shop.url)).status, 200);
    assert.equal(lines.filter((line) => line === "purser: onPayment failed").length, 2);
  });

  it("is a span of OpenTelemetry", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const spans: unknown[] = [];
    const tracer: Tracer = {
      startSpan: (name, { kind, startTime, attributes }) => {
        const span = { name, kind, attributes, status: undefined as unknown, ended: 0 };
        assert(Date.now() - startTime < 60_000);
        spans.push(span);
        return { setStatus: (status) => (span.status = status), end: () => span.ended++ };
      },
    };
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick, tracer });
    await fetch(shop.url, { task: "t" });
    const error = await failure(fetch(shop.url, { maxAmount: 1n }));
    await failure(fetch(shop.url, { signal: AbortSignal.abort() }));
    const { host } = new URL(shop.url);
    const paid = { "purser.payment.id": paymentId, "purser.amount": "10000", "purser.pay_to": payTo, "purser.transaction": "0xab", "purser.state": "settled" };
    assert.deepEqual(spans, [
      { name: "purser.payment", kind: 2, attributes: { "server.address": host, "purser.task": "t", ...paid }, status: undefined, ended: 1 },
      {
        ...{ name: "purser.payment", kind: 2, attributes: { "server.address": host, "error.type": "refused-by-caller" } },
        ...{ status: { code: 2, message: error.message }, ended: 1 },
      },
    ]);
  });
});

describe("receipts", { concurrency: true }, () => {
  it("that hang do not hold up close, and are ended", { timeout: 30_000 }, async (t) => {
    let gone = 0;
    const purser = await fakePurser(t, undefined, (req) => void req.socket.once("close", () => gone++));
    const shop = await seller(t);
    const { lines, logger } = logged();
    const client = createClient({ apiKey, baseUrl: purser.url, receiptWait: 0, logger });
    for (let n = 0; n < 20; n++) assert.equal((await client.get(`${shop.url}/${n}`)).status, 200);
    const began = performance.now();
    await client.close(100);
    assert(performance.now() - began < 5000, "twenty receipts take ten seconds each");
    while (gone < purser.receipts.length) await turn();
    const reported = purser.receipts.length;
    assert.equal((await client.get(shop.url)).status, 200);
    assert.match(lines.at(-2) ?? "", /is not reported: closed, or too many wait/);
    assert.equal(purser.receipts.length, reported);
    await assert.rejects(async () => client.close(-1), TypeError);
  });

  it("are waited for by close, and no longer than they take", async (t) => {
    let answer: (() => void) | undefined;
    const purser = await fakePurser(t, undefined, (_req, res) => {
      answer = () => json(res, 200, { payment: { id: paymentId, state: "settled" } });
    });
    const shop = await seller(t, (_req, res) => json(res, 200, {}, { "PAYMENT-RESPONSE": receipt }));
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, receiptWait: 0 });
    const paid = await fetch(shop.url);
    const closed = fetch.close();
    while (!answer) await turn();
    answer();
    await closed;
    assert.equal(paymentOf(paid)?.state, "settled");
  });

  it("are 256 at most", async () => {
    const receipts = new Receipts();
    let begun = 0;
    const job = (signal: AbortSignal) => {
      begun++;
      return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    };
    const added = Array.from({ length: 300 }, () => receipts.add(job));
    assert.deepEqual([begun, added.filter(Boolean).length], [256, 256]);
    await receipts.close(0);
    await Promise.all(added.filter((work) => work !== undefined));
    assert.equal(receipts.add(job), undefined);
  });
});

describe("jobs and repeats", { concurrency: true }, () => {
  const answers: Handler = (req, res) =>
    req.method === "POST" ? json(res, 202, { poll_url: "/jobs/1" }) : json(res, 200, { done: true }, { "PAYMENT-RESPONSE": receipt });
  const buyers: Record<string, (purser: FakePurser) => (method: string, url: string, headers?: Record<string, string>) => Promise<unknown>> = {
    fetch: (purser) => {
      const http = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
      return async (method, url, headers = {}): Promise<unknown> => (await http(url, { method, headers })).json() as Promise<unknown>;
    },
    axios: (purser) => {
      const http = wrapAxios(axios.create({ proxy: false }), { apiKey, baseUrl: purser.url, ...quick });
      return async (method, url, headers = {}) => (await http.request<unknown>({ method, url, headers })).data;
    },
    got: (purser) => {
      const http = wrapGot(got.extend({ retry: { limit: 0 } }), { apiKey, baseUrl: purser.url, ...quick });
      return async (method, url, headers = {}): Promise<unknown> => {
        const body: unknown = await http(url, { method: method as "GET", headers }).json();
        return body;
      };
    },
    undici: (purser) => {
      const http = wrapUndici(request, { apiKey, baseUrl: purser.url, ...quick });
      return async (method, url, headers = {}) => (await http(url, { method: method as "GET", headers })).body.json();
    },
  };
  for (const [name, make] of Object.entries(buyers)) {
    it(`${name}: questions carry the order's payment`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t, answers);
      const buy = make(purser);
      assert.deepEqual(await buy("POST", `${shop.url}/orders`), { poll_url: "/jobs/1" });
      for (let n = 0; n < 3; n++) assert.deepEqual(await buy("GET", `${shop.url}/jobs/1`), { done: true });
      assert.deepEqual([purser.pays.length, new Set(paymentsOf(shop)).size, paymentsOf(shop).length], [1, 1, 4]);
    });

    it(`${name}: a repeat that says so is no purchase, and a HEAD buys nothing`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t);
      const buy = make(purser);
      for (const count of ["0", "1", "0"]) await buy("GET", shop.url, { "X-Stainless-Retry-Count": count });
      assert.equal(new Set(purser.pays.map((p) => p["idempotencyKey"])).size, 2);
      const error = await failure(buy("HEAD", shop.url));
      assert.equal(purserErrorOf(error)?.code, "refused-by-caller");
      assert.equal(purser.pays.length, 3);
    });
  }
});

describe("times", { concurrency: true }, () => {
  it("may be those of one call", { timeout: 60_000 }, async (t) => {
    const silent = await fakePurser(t, () => undefined);
    const shop = await seller(t);
    const client = createClient({ apiKey, baseUrl: silent.url });
    assert.equal((await failure(client.get(shop.url, { payTimeout: 50 }))).code, "purser-unreachable");
    const purser = await fakePurser(t);
    const mute = await seller(t, (req, res, body, n) => (n > 2 ? deliver(req, res, body, n) : undefined));
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, resends: 1 });
    assert.equal((await failure(fetch(mute.url, { paidTimeout: 50 }))).code, "unclear");
    assert.equal((await fetch(mute.url)).status, 200);
    assert.throws(() => void fetch(mute.url, { payTimeout: 0 }), TypeError);
    assert.equal((await failure(client.wallets.list({ timeout: -1 }))).name, "TypeError");
    const { url } = await fakePurser(t, () => undefined);
    const late = createClient({ apiKey, baseUrl: url }).pay({ paymentRequiredHeader: "x" }, { timeout: 50 });
    assert.equal((await failure(late)).code, "purser-unreachable");
  });

  it("are never below the program's own", { timeout: 60_000 }, async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (...paid) => setTimeout(() => deliver(...paid), 700));
    const options = { apiKey, baseUrl: purser.url, resends: 0, paidTimeout: 100 };
    const own = 30_000;
    const fetch = wrapFetch(globalThis.fetch, options);
    assert.equal((await fetch(shop.url, { headers: { "X-Stainless-Timeout": "30" } })).status, 200);
    assert.equal((await wrapAxios(axios.create({ proxy: false, timeout: own }), options).get(shop.url)).status, 200);
    assert.equal((await wrapGot(got.extend({ timeout: { response: own }, retry: { limit: 0 } }), options)(shop.url)).statusCode, 200);
    assert.equal((await wrapUndici(request, options)(shop.url, { headersTimeout: own })).statusCode, 200);
    assert.equal(purser.pays.length, 4);
    assert.equal((await failure(fetch(shop.url))).code, "unclear");
  });
});
