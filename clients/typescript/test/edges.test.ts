// Corners of what decides about money.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isPurserError, RejectedError, wrapFetch, type Fetch, type PaymentOptions, type UnclearError } from "purserpay";
import { refusal } from "../dist/esm/answers.js";
import { headerChallenge, receiptReason } from "../dist/esm/challenge.js";
import { signedTerms } from "../dist/esm/mpp.js";
import { apiKey, b64, challenge, failure, payTo, paymentId, signature } from "./fake.js";

const asks = (header = challenge()) => new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": header } });
const grants = () =>
  Response.json({ paymentSignature: signature(), paymentHeader: "PAYMENT-SIGNATURE", payment: { id: paymentId, state: "open" } });

/** A fetch that asks for money at first, and notes how often it got some. */
function shop(options: Partial<PaymentOptions>, answer: () => Response = () => new Response("goods"), asking = asks) {
  const sent: string[] = [];
  const seller: Fetch = (_input, init) => {
    const payment = new Headers(init?.headers).get("PAYMENT-SIGNATURE");
    if (payment === null) return Promise.resolve(asking());
    sent.push(payment);
    return Promise.resolve(answer());
  };
  const fetch = wrapFetch(seller, { apiKey, baseUrl: "http://127.0.0.1:1", purserFetch: () => Promise.resolve(grants()), ...options });
  return { fetch, sent };
}

/** Counts the bytes that are copied from array to array, until it is asked how many. */
function copies(): () => number {
  let bytes = 0;
  // eslint-disable-next-line @typescript-eslint/unbound-method -- it is called with an array each time
  const { set } = Uint8Array.prototype;
  Uint8Array.prototype.set = function (from: ArrayLike<number>, offset?: number) {
    bytes += from.length;
    set.call(this, from, offset);
  };
  return () => {
    Uint8Array.prototype.set = set;
    return bytes;
  };
}

describe("corners", () => {
  it("an abort at any moment around purser's answer never pays without saying so", async () => {
    for (const settlement of ["seller", "payer"] as const) {
      const outcomes = new Set<string>();
      for (let steps = 0; steps < 40; steps++) {
        const controller = new AbortController();
        const purserFetch = () => {
          const later = (left: number) => {
            if (left > 0) queueMicrotask(() => later(left - 1));
            else controller.abort();
          };
          later(steps);
          return Promise.resolve(grants());
        };
        const { fetch, sent } = shop({ purserFetch, settlement });
        const error = await fetch("https://x.example/", { signal: controller.signal }).then(
          () => undefined,
          (error: unknown) => error as Error,
        );
        const unclear = isPurserError(error) && error.code === "unclear";
        assert(error === undefined || unclear || error.name === "AbortError");
        if (settlement === "payer") assert(error === undefined || unclear, "money may have moved");
        else assert.equal(sent.length > 0, error === undefined || unclear);
        outcomes.add(error === undefined ? "answer" : unclear ? (sent.length > 0 ? "unclear, sent" : "unclear, unsent") : "abort");
      }
      assert(outcomes.has(settlement === "seller" ? "abort" : "unclear, unsent"), [...outcomes].join());
    }
  });

  it("a challenge that cannot be read is an error with its answer", async () => {
    const { fetch } = shop({}, undefined, () => asks("%%%"));
    const error = await failure(fetch("https://x.example/a?secret"));
    assert.equal(error.code, "invalid-challenge");
    assert.equal(error.url, "https://x.example/a");
    assert.equal(await (error.response as Response).text(), "{}");
  });

  it("a 402 that breaks off is the program's", async () => {
    const broken = new ReadableStream({
      start(c) {
        c.error(new Error("cut"));
      },
    });
    const { fetch } = shop({}, undefined, () => new Response(broken, { status: 402 }));
    const answer = await fetch("https://x.example/");
    await assert.rejects(answer.text(), /cut/);
  });

  it("a 402 that drips is read for ten seconds, and then the program's", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const start = new TextEncoder().encode('{"x402Version":1,');
    let drip: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({
      start(c) {
        c.enqueue(start);
        drip = c;
      },
    });
    const { fetch } = shop({}, undefined, () => new Response(body, { status: 402 }));
    let answer: Response | undefined;
    const done = fetch("https://x.example/").then((response) => (answer = response));
    for (const ms of [9000, 999, 1]) {
      for (let n = 0; n < 50; n++) await Promise.resolve();
      assert.equal(answer, undefined);
      drip?.enqueue(new Uint8Array([0x20]));
      t.mock.timers.tick(ms);
    }
    assert.equal((await done).status, 402);
    drip?.close();
    assert.equal(await answer?.text(), '{"x402Version":1,   ');
  });

  it("a 402 of many tiny pieces takes time in proportion", async () => {
    const reading = async (size: number) => {
      let left = size;
      const body = new ReadableStream<Uint8Array>({
        pull(c) {
          if (left-- > 0) c.enqueue(new Uint8Array([left > size / 2 ? 0x20 : 0x7b]));
          else c.close();
        },
      });
      const { fetch } = shop({}, undefined, () => new Response(body, { status: 402 }));
      const copied = copies();
      assert.equal((await (await fetch("https://x.example/")).arrayBuffer()).byteLength, size);
      return copied();
    };
    const [small, large] = [await reading(4000), await reading(64_000)];
    assert(large < 40 * small, `${large} bytes were copied for sixteen times as much as ${small}`);
  });

  for (const verdict of [0, 1, undefined, null, "yes", { abort: true }, []] as unknown[]) {
    it(`beforePayment pays for nothing by ${JSON.stringify(verdict)}`, async () => {
      const { fetch, sent } = shop({ beforePayment: () => verdict as boolean, purserFetch: () => assert.fail("purser is asked") });
      const error = await failure(fetch("https://x.example/"));
      assert.equal(error.code, "refused-by-caller");
      assert(error.cause instanceof TypeError);
      assert.match(error.cause.message, /only true allows a payment/);
      assert(sent.length <= 1);
    });
  }

  it("an abort does not wait for beforePayment", async () => {
    const controller = new AbortController();
    let allow: (() => void) | undefined;
    const beforePayment = () =>
      new Promise<boolean>((resolve) => {
        allow = () => resolve(true);
        controller.abort(new Error("enough"));
      });
    const { fetch, sent } = shop({ beforePayment, purserFetch: () => assert.fail("purser is asked") });
    const error = await failure(fetch("https://x.example/", { signal: controller.signal }));
    assert.equal(error.message, "enough");
    allow?.();
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(sent, []);
  });

  it("a beforePayment that refuses late does not turn an abort into a refusal", async () => {
    const controller = new AbortController();
    const beforePayment = () => {
      controller.abort(new Error("enough"));
      throw new Error("no");
    };
    const error = await failure(shop({ beforePayment }).fetch("https://x.example/", { signal: controller.signal }));
    assert.equal(error.message, "enough");
  });

  it("a rejection may have no reason", async () => {
    const { fetch } = shop({}, () => asks(challenge("1", "")));
    const error = await failure(fetch("https://x.example/"));
    assert(error instanceof RejectedError);
    assert.equal(error.reason, undefined);
    assert(error.message.startsWith("The seller answered the paid request with another 402. (payment "));
  });

  it("purser's fetch may fail with anything", async () => {
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
    const { fetch, sent } = shop({ purserFetch: () => Promise.reject("no") });
    assert.equal((await failure(fetch("https://x.example/"))).code, "purser-unreachable");
    assert.equal(sent.length, 0);
  });

  it("host patterns with ports", async () => {
    for (const [pattern, url, allowed] of [
      ["api.example:80", "http://api.example/", true],
      ["api.example:81", "http://api.example/", false],
      ["api.example:80:90", "https://api.example/", false],
      ["*.", "https://api.example/", false],
      ["*", "https://api.example/", true],
      ["", "https://api.example/", false],
    ] as const) {
      const { fetch, sent } = shop({ allowHosts: [pattern] });
      await fetch(url).catch((error: unknown) => assert(isPurserError(error) && error.code === "refused-by-caller"));
      assert.equal(sent.length, allowed ? 1 : 0, pattern);
    }
  });

  it("what purser signed is read strictly", () => {
    const whole = { payload: { authorization: { to: payTo, value: "1" } } };
    assert.deepEqual(signedTerms(b64(whole)), { to: payTo, value: "1" });
    const bad = [5, [], {}, { payload: 5 }, { payload: {} }, { payload: { authorization: { to: payTo, value: 1 } } }];
    for (const other of [...bad, { payload: { authorization: { value: "1" } } }]) assert.equal(signedTerms(b64(other)), undefined);
    assert.equal(signedTerms("%"), undefined);
  });

  it("receipts and headers may be anything", () => {
    assert.equal(receiptReason('{"errorReason":"x"}'), "x");
    assert.equal(receiptReason("[]"), "");
    assert.equal(receiptReason(b64({ errorReason: 5 })), "");
    const header = (values: Record<string, string>) => (name: string) => values[name] ?? null;
    assert.throws(() => headerChallenge(header({ "PAYMENT-REQUIRED": "A".repeat((128 << 10) + 1) }), []), { code: "invalid-challenge" });
    assert.equal(headerChallenge(header({ x: "  " }), ["x", "y"]), undefined);
    const entries = [null, 5, "x", { network: 5 }, { network: "base", asset: 5 }];
    assert.deepEqual(headerChallenge(header({ "PAYMENT-REQUIRED": b64({ x402Version: 1, accepts: entries }) }), [])?.offers, []);
    const wide = '{"x402Version":1,"accepts":[],"error":"\u4e00"}'; // from a client that has decoded it
    assert.equal(headerChallenge(header({ "PAYMENT-REQUIRED": wide }), [])?.sent, b64(wide));
  });

  it("refusals may lack everything", () => {
    const of = (status: number, body = {}) => refusal({ status, body, retryAfter: null });
    assert.equal((of(429) as unknown as { upgradeUrl?: string }).upgradeUrl, undefined);
    assert.equal(of(402, { payment: { id: "", state: 5 } }).paymentId, undefined);
    assert.equal(of(418).message, "purser answered with status 418");
    assert.equal(of(409, { error: "No wallet for network base" }).code, "request-refused");
    assert.equal(of(403, { error: "Unsupported x" }).code, "request-refused");
    assert.equal(of(404, { error: "idempotencyKey already used for a different request" }).code, "request-refused");
  });

  it("a waitUntil that fails does not lose a paid answer", async () => {
    const paid = () => new Response("goods", { headers: { "PAYMENT-RESPONSE": b64({ success: true }) } });
    const waitUntil = () => {
      throw new TypeError("Illegal invocation");
    };
    const { fetch } = shop({ waitUntil }, paid);
    assert.equal(await (await fetch("https://x.example/")).text(), "goods");
  });

  it("resume after a rate limit keeps the key", async () => {
    const answers = [() => Promise.reject(new Error("lost")), () => Promise.resolve(new Response("{}", { status: 503, headers: { "Retry-After": "9" } }))];
    const keys: string[] = [];
    const purserFetch: Fetch = (_input, init) => {
      keys.push((JSON.parse(String(init?.body)) as { idempotencyKey: string }).idempotencyKey);
      const next = answers.shift();
      return next ? next() : Promise.resolve(grants());
    };
    const { fetch, sent } = shop({ purserFetch, settlement: "payer" });
    const error = (await failure(fetch("https://x.example/"))) as unknown as UnclearError<Response>;
    assert.equal(error.code, "unclear");
    answers.push(() => Promise.resolve(new Response("{}", { status: 429 })));
    assert.equal((await failure(error.resume())).code, "limit-reached");
    assert.equal((await fetch("https://x.example/")).status, 200);
    assert.equal(new Set(keys).size, 1);
    assert.equal(sent.length, 1);
  });

  it("the clock of the day does not matter to what is remembered", async (t) => {
    const keys = new Set<string>();
    let lost = true;
    const purserFetch: Fetch = (_input, init) => {
      keys.add((JSON.parse(String(init?.body)) as { idempotencyKey: string }).idempotencyKey);
      return Promise.resolve(grants());
    };
    const seller: Fetch = (_input, init) => {
      if (!new Headers(init?.headers).has("PAYMENT-SIGNATURE")) return Promise.resolve(asks());
      return lost ? Promise.reject(new Error("lost")) : Promise.resolve(new Response("goods"));
    };
    const fetch = wrapFetch(seller, { apiKey, baseUrl: "http://127.0.0.1:1", purserFetch, resends: 0 });
    assert.equal((await failure(fetch("https://x.example/"))).code, "unclear");
    lost = false;
    t.mock.method(Date, "now", () => 1e15);
    assert.equal((await fetch("https://x.example/")).status, 200);
    assert.equal(keys.size, 1);
  });
});
