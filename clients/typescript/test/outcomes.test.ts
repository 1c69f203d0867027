// The paying fetch where sellers and pursers misbehave, and where the program gives up.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isPurserError, paymentOf, type RejectedError, type UnclearError, wrapFetch } from "purserpay";
import {
  apiKey,
  challenge,
  challengeV1,
  cut,
  deliver,
  discreet,
  failure,
  fakePurser,
  freePort,
  grant,
  json,
  paid,
  paymentId,
  paymentsOf,
  quick,
  receipt,
  seller,
  serve,
} from "./fake.js";

const all = { concurrency: true };

describe("a lost answer", all, () => {
  it("of the seller is asked for again with the same payment", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (req, res, body, n) => (n === 1 ? cut(req, res, body, n) : deliver(req, res, body, n)));
    const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url);
    assert.equal(answer.status, 200);
    assert.equal(purser.pays.length, 1);
    assert.equal(paymentsOf(shop).length, 2);
    assert.equal(new Set(paymentsOf(shop)).size, 1);
  });

  it("of the seller for good is unclear, can be resumed, and never paid anew", async (t) => {
    const purser = await fakePurser(t);
    let broken = true;
    const shop = await seller(t, (req, res, body, n) => (broken ? cut(req, res, body, n) : deliver(req, res, body, n)));
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const error = (await failure(fetch(`${shop.url}/x?token=secret`))) as unknown as UnclearError<Response>;
    assert.equal(error.code, "unclear");
    assert.equal(error.paymentId, paymentId);
    assert.equal(error.url, `${shop.url}/x`);
    assert.equal(error.idempotencyKey, purser.pays[0]?.idempotencyKey);
    await discreet(error);
    const again = (await failure(error.resume())) as unknown as UnclearError<Response>;
    assert.equal(again.code, "unclear");
    const both = await Promise.allSettled([error.resume(), again.resume()]);
    const [first, second] = both.map((r) => (r.status === "rejected" ? String(r.reason) : "an answer"));
    assert.match(first ?? "", /was lost/);
    assert.match(second ?? "", /being sent already/);
    broken = false;
    assert.equal((await again.resume()).status, 200);
    await assert.rejects(error.resume(), /brought its answer already/);
    assert.equal(purser.pays.length, 1);
    assert.equal(new Set(paymentsOf(shop)).size, 1);
    await fetch(`${shop.url}/x?token=secret`);
    assert.equal(purser.pays.length, 2, "what was answered is bought anew");
    assert.notEqual(purser.pays[0]?.idempotencyKey, purser.pays[1]?.idempotencyKey);
  });

  it("is remembered: the program's own repeat gets the same payment", async (t) => {
    const purser = await fakePurser(t);
    let broken = true;
    const shop = await seller(t, (req, res, body, n) => (broken ? cut(req, res, body, n) : deliver(req, res, body, n)));
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, resends: 0, ...quick });
    const buy = (body: string) => fetch(shop.url, { method: "POST", body });
    assert.equal((await failure(buy("a"))).code, "unclear");
    broken = false;
    await Promise.all([buy("a"), buy("a"), buy("b")]);
    const keys = purser.pays.map((p) => p.idempotencyKey);
    assert.equal(keys.filter((k) => k === keys[0]).length, 2, "one of the repeats takes it");
    assert.equal(new Set(keys).size, 3);
    await buy("a");
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 4);
  });

  it("is the program's affair under a key of its own", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, cut);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, resends: 0, ...quick });
    await failure(fetch(shop.url, { idempotencyKey: "mine" }));
    await failure(fetch(shop.url));
    assert.notEqual(purser.pays[1]?.idempotencyKey, "mine");
  });

  it("keeps a remembered key that now stands for other terms", async (t) => {
    let conflict = false;
    const purser = await fakePurser(t, (req, res, body, n) =>
      conflict ? json(res, 400, { error: "idempotencyKey already used for a different request" }) : grant(req, res, body, n),
    );
    const shop = await seller(t, cut);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, resends: 0, ...quick });
    assert.equal((await failure(fetch(shop.url))).code, "unclear");
    conflict = true;
    for (let n = 0; n < 3; n++) assert.equal((await failure(fetch(shop.url))).code, "idempotency-conflict");
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 1);
    assert.equal((await failure(fetch(`${shop.url}/new`))).code, "idempotency-conflict");
    assert.equal((await failure(fetch(`${shop.url}/new`))).code, "idempotency-conflict");
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 3);
  });

  it("of purser is asked for again under the same key", async (t) => {
    const purser = await fakePurser(t, (req, res, body, n) => (n < 3 ? cut(req, res, body, n) : grant(req, res, body, n)));
    const shop = await seller(t);
    const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url);
    assert.equal(answer.status, 200);
    assert.equal(purser.pays.length, 3);
    assert.equal(new Set(purser.pays.map((p) => JSON.stringify(p))).size, 1);
  });

  it("of purser for good: nothing was paid, or with settlement payer it is unclear", async (t) => {
    const purser = await fakePurser(t, cut);
    const shop = await seller(t);
    for (const [settlement, code] of [["seller", "purser-unreachable"], ["payer", "unclear"]] as const) {
      const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, settlement, ...quick })(shop.url));
      assert.equal(error.code, code);
      await discreet(error);
    }
    assert.equal(paymentsOf(shop).length, 0);
  });

  it("of purser that is not there is never unclear", async (t) => {
    const baseUrl = `http://127.0.0.1:${await freePort()}`;
    const shop = await seller(t);
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl, settlement: "payer", ...quick })(shop.url));
    assert.equal(error.code, "purser-unreachable");
  });

  it("of purser for good with settlement payer can be resumed", async (t) => {
    let broken = true;
    const purser = await fakePurser(t, (req, res, body, n) => (broken ? cut(req, res, body, n) : grant(req, res, body, n)));
    const shop = await seller(t);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, settlement: "payer", ...quick });
    const error = (await failure(fetch(shop.url))) as unknown as UnclearError<Response>;
    assert.equal(error.code, "unclear");
    broken = false;
    assert.equal((await error.resume()).status, 200);
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 1);
    assert.equal(paymentsOf(shop).length, 1);
  });

  it("of a purser that never answers ends with the time", { timeout: 60_000 }, async (t) => {
    const purser = await fakePurser(t, () => undefined);
    const shop = await seller(t);
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, payTimeout: 3000 })(shop.url));
    assert.equal(error.code, "purser-unreachable");
    assert.equal(purser.pays.length, 3);
  });

  it("of a seller that never answers ends with the time", { timeout: 60_000 }, async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, () => undefined);
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, paidTimeout: 3000 })(shop.url));
    assert.equal(error.code, "unclear");
    assert.equal((error.cause as Error).name, "TimeoutError");
    assert.equal(paymentsOf(shop).length, 2);
  });
});

describe("statuses of paid answers", all, () => {
  for (const status of [500, 502, 503, 504]) {
    it(`${status} is sent again, and in the end the program's`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t, (_req, res) => json(res, status, { error: "sorry" }));
      const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
      const answer = await fetch(shop.url);
      assert.equal(answer.status, status);
      assert.deepEqual(await answer.json(), { error: "sorry" });
      assert.equal(paymentOf(answer)?.id, paymentId);
      assert.equal(paymentsOf(shop).length, 2);
      await fetch(shop.url);
      assert.equal(new Set(paymentsOf(shop)).size, 1, "the program's repeat gets the same payment");
    });
  }

  it("503 with a receipt is clear", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) => json(res, 503, {}, { "PAYMENT-RESPONSE": receipt }));
    assert.equal((await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url)).status, 503);
    assert.equal(paymentsOf(shop).length, 1);
    assert.equal(purser.receipts.length, 1);
  });

  it("503 that asks for a long wait is not waited for; a short wait is kept", async (t) => {
    const purser = await fakePurser(t);
    const long = await seller(t, (_req, res) => json(res, 503, {}, { "Retry-After": "6" }));
    assert.equal((await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(long.url)).status, 503);
    assert.equal(paymentsOf(long).length, 1);
    const times: number[] = [];
    const short = await seller(t, (req, res, body, n) => {
      times.push(performance.now());
      return n === 1 ? json(res, 503, {}, { "Retry-After": "1" }) : deliver(req, res, body, n);
    });
    assert.equal((await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(short.url)).status, 200);
    assert((times[1] ?? 0) - (times[0] ?? 0) >= 990);
  });

  for (const status of [400, 404, 409, 422, 429, 501]) {
    it(`${status} is the program's at once`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t, (_req, res) => json(res, status, {}));
      const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
      assert.equal((await fetch(shop.url)).status, status);
      assert.equal((await fetch(shop.url)).status, status);
      assert.equal(paymentsOf(shop).length, 2);
      assert.equal(new Set(paymentsOf(shop)).size, 1);
    });
  }
});

describe("a second 402", all, () => {
  it("is never paid, and names the seller's reason", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) =>
      json(res, 402, { why: "no" }, { "PAYMENT-REQUIRED": challenge("1", "No matching payment requirements") }),
    );
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const error = (await failure(fetch(shop.url))) as unknown as RejectedError<Response>;
    assert.equal(error.code, "rejected");
    assert.equal(error.reason, "No matching payment requirements");
    assert.equal(error.paymentId, paymentId);
    assert.deepEqual(await (error.response as Response).json(), { why: "no" });
    assert.equal(purser.pays.length, 1);
    assert.equal(paymentsOf(shop).length, 1);
    await discreet(error);
    assert.equal((await failure(error.resume())).code, "rejected");
    assert.equal((await failure(fetch(shop.url))).code, "rejected");
    assert.equal(new Set(paymentsOf(shop)).size, 1, "neither resume nor repeat pays anew");
  });

  it("of version 1", async (t) => {
    const purser = await fakePurser(t);
    const shop = await serve(t, (req, res) => res.writeHead(402).end(challengeV1("10000", paid(req) ? "invalid" : "pay")));
    const error = (await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url))) as unknown as RejectedError<Response>;
    assert.equal(error.reason, "invalid");
    assert.equal(await (error.response as Response).text(), challengeV1("10000", "invalid"));
  });

  it("with a receipt: its reason counts, and it is reported", async (t) => {
    const purser = await fakePurser(t);
    const failed = Buffer.from('{"success":false,"errorReason":"nonce_already_used"}').toString("base64");
    const shop = await seller(t, (_req, res) => json(res, 402, {}, { "PAYMENT-RESPONSE": failed }));
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url));
    assert.equal(error.reason, "nonce_already_used");
    assert.deepEqual(purser.receipts.map((r) => r.receipt), [failed]);
  });

  it("without anything that can be read", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) => json(res, 402, {}, { "PAYMENT-REQUIRED": "%%%", "PAYMENT-RESPONSE": "%%%" }));
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url));
    assert.equal(error.code, "rejected");
    assert.equal(error.reason, undefined);
  });
});

describe("giving up", all, () => {
  it("before the payment: the program's own reason, nothing is sent", async (t) => {
    const controller = new AbortController();
    const purser = await fakePurser(t, () => {
      controller.abort(new Error("enough"));
    });
    const shop = await seller(t);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const error = await failure(fetch(shop.url, { signal: controller.signal }));
    assert.equal(error.message, "enough");
    assert.equal(isPurserError(error), false);
    assert.equal(paymentsOf(shop).length, 0);
    assert.equal(purser.pays.length, 1);
  });

  it("while beforePayment thinks", async (t) => {
    const controller = new AbortController();
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const beforePayment = () => {
      controller.abort();
      return true;
    };
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, beforePayment });
    assert.equal((await failure(fetch(shop.url, { signal: controller.signal }))).name, "AbortError");
    assert.equal(purser.pays.length, 0);
  });

  it("between two tries of purser", async (t) => {
    let controller = new AbortController();
    const purser = await fakePurser(t, (_req, res) => {
      json(res, 503, {}, { "Retry-After": "5" });
      setTimeout(() => {
        controller.abort();
      }, 200);
    });
    const shop = await seller(t);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url });
    for (const [settlement, code] of [["seller", undefined], ["payer", "unclear"]] as const) {
      const paying = settlement === "seller" ? fetch : wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, settlement });
      controller = new AbortController();
      const error = await failure(paying(shop.url, { signal: controller.signal }));
      assert.equal(isPurserError(error) ? error.code : undefined, code);
    }
  });

  it("while purser settles: unclear, and resumable", async (t) => {
    const controller = new AbortController();
    const purser = await fakePurser(t, (req, res, body, n) => {
      if (n === 1) controller.abort();
      else grant(req, res, body, n);
    });
    const shop = await seller(t);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, settlement: "payer", ...quick });
    const error = (await failure(fetch(shop.url, { signal: controller.signal }))) as unknown as UnclearError<Response>;
    assert.equal(error.code, "unclear");
    assert.equal((error.cause as Error).name, "AbortError");
    assert.equal((await error.resume()).status, 200);
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 1);
  });

  it("after the payment was sent: unclear with the payment's id, and resumable", async (t) => {
    const controller = new AbortController();
    const purser = await fakePurser(t);
    const shop = await seller(t, (req, res, body, n) => {
      if (n === 1) controller.abort();
      else deliver(req, res, body, n);
    });
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const error = (await failure(fetch(shop.url, { signal: controller.signal }))) as unknown as UnclearError<Response>;
    assert.equal(error.code, "unclear");
    assert.equal(error.paymentId, paymentId);
    assert.equal((error.cause as Error).name, "AbortError");
    assert.equal(paymentsOf(shop).length, 1, "there is no resend");
    const aborted = await failure(error.resume({ signal: AbortSignal.abort() }));
    assert.equal(aborted.code, "unclear");
    assert.equal((await error.resume()).status, 200);
    assert.equal(purser.pays.length, 1);
    assert.equal(new Set(paymentsOf(shop)).size, 1);
  });

  it("between two sends", async (t) => {
    const controller = new AbortController();
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) => {
      json(res, 503, {}, { "Retry-After": "5" });
      setTimeout(() => {
        controller.abort();
      }, 200);
    });
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const error = await failure(fetch(shop.url, { signal: controller.signal }));
    assert.equal(error.code, "unclear");
    assert.equal(paymentsOf(shop).length, 1);
  });

  it("while the paid answer is streamed: as with any fetch", async (t) => {
    const controller = new AbortController();
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) => res.writeHead(200).write("first"));
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const answer = await fetch(new Request(shop.url, { signal: controller.signal }));
    controller.abort();
    await assert.rejects(answer.text(), { name: "AbortError" });
  });

  it("does not depend on AbortSignal.any or on a fetch that heeds signals", async (t) => {
    // eslint-disable-next-line @typescript-eslint/unbound-method -- it is put back as it was
    const { any } = AbortSignal;
    // @ts-expect-error older runtimes lack it
    AbortSignal.any = undefined;
    t.after(() => {
      AbortSignal.any = any;
    });
    const purser = await fakePurser(t);
    const controller = new AbortController();
    let n = 0;
    const fetch = wrapFetch(() => {
      if (++n === 1) return Promise.resolve(new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": challenge() } }));
      controller.abort();
      return new Promise<Response>(() => undefined);
    }, { apiKey, baseUrl: purser.url });
    assert.equal((await failure(fetch("https://x.example/", { signal: controller.signal }))).code, "unclear");
  });
});

describe("hostile pursers", all, () => {
  it("an endless answer is cut", async (t) => {
    const purser = await fakePurser(t, async (req, res) => {
      while (!req.socket.destroyed && !res.destroyed) {
        if (!res.write("x".repeat(1 << 20))) await new Promise((r) => res.once("drain", r).once("close", r));
      }
    });
    const shop = await seller(t);
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url));
    assert.equal(error.code, "purser-unreachable");
  });

  it("a 402 of purser itself is no challenge", async (t) => {
    const purser = await fakePurser(t, (_req, res) => json(res, 402, { error: "Payment refused by policy", rule: "doors" }));
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url });
    const answer = await fetch(`${purser.url}/v1/pay`, { method: "POST", headers: { "X-Api-Key": apiKey }, body: "{}" });
    assert.equal(answer.status, 402);
    assert.equal(purser.pays.length, 1);
  });
});
