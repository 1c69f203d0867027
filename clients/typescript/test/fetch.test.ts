// The paying fetch: requests, bodies, redirects, receipts and options.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { paymentOf, wrapFetch } from "purserpay";
import { apiKey, challenge, challengeV1, cut, failure, fakePurser, json, paid, paymentId, payTo, paymentsOf, quick, receipt, seller, serve } from "./fake.js";

const all = { concurrency: true };

describe("a purchase", all, () => {
  it("pays once and hands the answer on as it is", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const answer = await fetch(`${shop.url}/a?b=c#d`, { method: "POST", headers: { "X-Mine": "yes" }, body: "héllo" });
    assert.equal(answer.status, 200);
    assert.equal(answer.url, `${shop.url}/a?b=c`);
    assert(answer.body instanceof ReadableStream);
    assert.deepEqual(await answer.json(), { report: "sunny", body: "héllo" });
    assert.equal(purser.pays.length, 1);
    assert.equal(purser.pays[0]?.requestUrl, `${shop.url}/a?b=c`);
    assert.equal(purser.pays[0].settlement, "seller");
    assert.deepEqual(purser.receipts, [{ path: `/v1/payments/${paymentId}/receipt`, receipt }]);
    assert.deepEqual(
      shop.got.map((g) => [g.method, g.headers["x-mine"], g.body, g.headers["content-type"]]),
      Array(2).fill(["POST", "yes", "héllo", "text/plain;charset=UTF-8"]),
    );
    assert(shop.got.every((g) => g.headers["x-api-key"] === undefined));
    assert.deepEqual(paymentOf(answer), {
      id: paymentId,
      state: "settled",
      settled: true,
      transaction: "0xab",
      idempotencyKey: purser.pays[0].idempotencyKey,
      amount: "10000",
      host: new URL(answer.url).host,
      payTo,
      task: undefined,
    });
  });

  it("pays sellers of version 1 and finds their receipt", async (t) => {
    const purser = await fakePurser(t);
    const shop = await serve(t, (req, res) => {
      if (paid(req)) return json(res, 200, {}, { "X-PAYMENT-RESPONSE": receipt });
      return res.writeHead(402).end(challengeV1());
    });
    await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url);
    assert.equal(shop.got[1]?.headers["x-payment"] !== undefined, true);
    assert.equal(purser.receipts.length, 1);
  });

  it("leaves answers alone that are no challenge, unread", async (t) => {
    const purser = await fakePurser(t);
    const shop = await serve(t, (_req, res) => json(res, 402, { plan: "gold" }));
    const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url })(shop.url);
    assert.equal(answer.bodyUsed, false);
    assert.deepEqual(await answer.json(), { plan: "gold" });
    assert.equal(purser.pays.length, 0);
  });

  it("does not wait for the end of a 402 that is no challenge", async (t) => {
    const purser = await fakePurser(t);
    const shop = await serve(t, (_req, res) => res.writeHead(402).write("data: 1\n\n"));
    const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url })(shop.url);
    assert.equal(answer.status, 402);
    await answer.body?.cancel();
  });

  it("reads no more of a 402 than can be a challenge", async (t) => {
    const purser = await fakePurser(t);
    const shop = await serve(t, async (req, res) => {
      res.writeHead(402).write("{");
      while (!req.socket.destroyed && res.writableLength < 1 << 20) {
        res.write(" ".repeat(1 << 14));
        await sleep(0);
      }
    });
    const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url })(shop.url);
    assert.equal(answer.status, 402);
    await answer.body?.cancel();
  });

  it("streams the paid answer", async (t) => {
    const purser = await fakePurser(t);
    let more: (() => void) | undefined;
    const shop = await seller(t, (_req, res) => {
      res.writeHead(200).write("first");
      more = () => res.end("second");
    });
    const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url);
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    assert.equal((await reader?.read())?.value, "first");
    more?.();
    assert.equal((await reader?.read())?.value, "second");
  });

  it("takes equal requests at the same time for separate purchases", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    await Promise.all(Array.from({ length: 8 }, () => fetch(shop.url)));
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 8);
    assert.equal(new Set(paymentsOf(shop)).size, 8);
  });

  it("uses the key that the program gives", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    await fetch(shop.url, { idempotencyKey: "order-1" });
    await fetch(shop.url, { idempotencyKey: "order-1", headers: { "Idempotency-Key": "order-2" } });
    assert.deepEqual(purser.pays.map((p) => p.idempotencyKey), ["order-1", "order-2"]);
    assert.throws(() => void fetch(shop.url, { idempotencyKey: "" }), TypeError);
  });
});

describe("Request objects and bodies", all, () => {
  const kinds: [string, () => NonNullable<RequestInit["body"]>, string][] = [
    ["text", () => "a body", "a body"],
    ["bytes", () => new TextEncoder().encode("a body"), "a body"],
    ["a part of a buffer", () => new Uint8Array(new TextEncoder().encode("xa bodyx").buffer, 1, 6), "a body"],
    ["ArrayBuffer", () => new TextEncoder().encode("a body").buffer, "a body"],
    ["Blob", () => new Blob(["a body"]), "a body"],
    ["form", () => new URLSearchParams({ a: "body" }), "a=body"],
    ["stream", () => new Blob(["a body"]).stream(), "a body"],
  ];
  for (const [name, body, want] of kinds) {
    for (const asRequest of [false, true]) {
      it(`${name}${asRequest ? " in a Request" : ""}`, async (t) => {
        const purser = await fakePurser(t);
        const shop = await seller(t);
        const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
        const init = { method: "PUT", body: body(), duplex: "half" } as RequestInit;
        const answer = await (asRequest ? fetch(new Request(shop.url, init)) : fetch(shop.url, init));
        assert.equal(answer.status, 200);
        assert.deepEqual(shop.got.map((g) => [g.method, g.body]), Array(2).fill(["PUT", want]));
        assert.equal(shop.got[0]?.headers["content-type"], shop.got[1]?.headers["content-type"]);
      });
    }
  }

  it("async iterables, as Node takes them", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    async function* body() {
      yield await Promise.resolve("a ");
      yield new TextEncoder().encode("body");
    }
    const init = { method: "POST", body: body(), duplex: "half" } as unknown as RequestInit;
    await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url, init);
    assert.deepEqual(shop.got.map((g) => g.body), ["a body", "a body"]);
  });

  it("multipart forms, copied before the program changes them", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const body = new FormData();
    body.append("a", "1");
    body.append("f", new Blob(["file"], { type: "text/plain" }), "f.txt");
    const answer = wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url, { method: "POST", body });
    body.append("later", "no");
    await answer;
    for (const got of shop.got) {
      assert.match(got.body, /name="a"\r\n\r\n1\r\n[^]*filename="f.txt"\r\nContent-Type: text\/plain\r\n\r\nfile/i);
      assert(!got.body.includes("later"));
    }
  });

  it("Request with settings of its own, changed by init", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const request = new Request(`${shop.url}/r`, { method: "POST", headers: { A: "1", B: "2" }, body: "old" });
    const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(request, { headers: { B: "3" }, body: "new" });
    assert.equal(answer.status, 200);
    assert.deepEqual(
      shop.got.map((g) => [g.url, g.headers.a, g.headers.b, g.body]),
      Array(2).fill(["/r", undefined, "3", "new"]),
    );
  });

  it("a stream beyond the limit is sent in full, and not paid for", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, bodyLimit: 4, ...quick });
    const init = { method: "POST", body: new Blob(["0123456789"]).stream(), duplex: "half" } as RequestInit;
    const error = await failure(fetch(shop.url, init));
    assert.equal(error.code, "not-replayable");
    assert.equal(shop.got[0]?.body, "0123456789");
    assert.equal(purser.pays.length, 0);
    const free = await serve(t, (_req, res, body) => res.end(body));
    const body = new ReadableStream({
      start(c) {
        for (const part of ["01234", "56789", "abc"]) c.enqueue(new TextEncoder().encode(part));
        c.close();
      },
    });
    assert.equal(await (await fetch(free.url, { method: "POST", body, duplex: "half" } as RequestInit)).text(), "0123456789abc");
  });

  it("a stream is not touched when the limit is 0", async (t) => {
    const purser = await fakePurser(t);
    const body = new Blob(["x"]).stream();
    let sent: unknown;
    const fetch = wrapFetch((_input, init) => {
      sent = init?.body;
      return Promise.resolve(new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": challenge() } }));
    }, { apiKey, baseUrl: purser.url, bodyLimit: 0 });
    const error = await failure(fetch("https://x.example/", { method: "POST", body, duplex: "half" } as RequestInit));
    assert.equal(error.code, "not-replayable");
    assert.equal(sent, body);
  });

  it("gives up reading a body when the program does", async (t) => {
    const purser = await fakePurser(t);
    let cancelled = false;
    const body = new ReadableStream({
      cancel() {
        cancelled = true;
      },
    });
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url });
    const signal = AbortSignal.timeout(20);
    const keepAlive = setTimeout(() => undefined, 10_000); // the timer of AbortSignal.timeout does not keep Node alive
    const error = await failure(fetch("http://127.0.0.1:1/", { method: "POST", body, duplex: "half", signal } as RequestInit));
    clearTimeout(keepAlive);
    assert.equal(error.name, "TimeoutError");
    await sleep(10);
    assert(cancelled);
  });

  it("refuses a stream of something else than bytes", async (t) => {
    const purser = await fakePurser(t);
    const body = new ReadableStream({
      start(c) {
        c.enqueue(5);
        c.close();
      },
    });
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url });
    await assert.rejects(fetch("http://127.0.0.1:1/", { method: "POST", body, duplex: "half" } as RequestInit), TypeError);
  });
});

describe("redirects", all, () => {
  it("the payment goes to what answered 402, and credentials only to their origin", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const door = await serve(t, (_req, res) => res.writeHead(307, { Location: `${shop.url}/goods` }).end());
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const answer = await fetch(door.url, { headers: { Authorization: "Bearer x", Cookie: "c=1", "X-Mine": "yes" } });
    assert.equal(answer.url, `${shop.url}/goods`);
    assert.equal(door.got.length, 1);
    const sent = shop.got[1];
    assert(sent && paid(sent));
    assert.equal(sent.headers.authorization, undefined);
    assert.equal(sent.headers.cookie, undefined);
    assert.equal(sent.headers["x-mine"], "yes");
    assert.equal(purser.pays[0]?.requestUrl, `${shop.url}/goods`);
    const again = await fetch(new Request(door.url, { headers: { Authorization: "Bearer x" } }));
    assert.equal(again.status, 200);
    assert.equal(shop.got[3]?.headers.authorization, undefined);
  });

  it("a POST that was redirected is not paid for", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const door = await serve(t, (_req, res) => res.writeHead(307, { Location: shop.url }).end());
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url })(door.url, { method: "POST", body: "x" }));
    assert.equal(error.code, "not-replayable");
    assert.equal(purser.pays.length, 0);
  });

  for (const sameOrigin of [true, false]) {
    for (const { status, method } of [302, 303, 307].flatMap((status) => ["GET", "POST"].map((method) => ({ status, method })))) {
      it(`${status} of a paid ${method} to ${sameOrigin ? "its own" : "another"} origin is followed without the payment`, async (t) => {
        const purser = await fakePurser(t);
        const other = await serve(t, (_req, res) => res.end("other"));
        const shop = await serve(t, (req, res) => {
          if (req.url === "/there") return res.end("there");
          if (!paid(req)) return json(res, 402, {}, { "PAYMENT-REQUIRED": challenge() });
          const Location = sameOrigin ? "/there" : `${other.url}/there`;
          return res.writeHead(status, { Location, "PAYMENT-RESPONSE": receipt }).end();
        });
        const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
        const init = { method, headers: { Authorization: "Bearer x" }, ...(method === "POST" && { body: "x" }) };
        for (const input of [shop.url, new Request(shop.url, init)]) {
          const answer = await fetch(input, input instanceof Request ? undefined : init);
          assert.equal(await answer.text(), sameOrigin ? "there" : "other");
          const got = (sameOrigin ? shop : other).got.at(-1);
          assert(got && !paid(got));
          assert.equal(got.method, status === 307 ? method : "GET");
          assert.equal(got.body, status === 307 && method === "POST" ? "x" : "");
          assert.equal(got.headers["content-type"] === undefined, got.method === "GET");
          assert.equal(got.headers.authorization, sameOrigin ? "Bearer x" : undefined);
          assert.equal(paymentOf(answer)?.id, paymentId);
        }
        assert.equal(purser.receipts.length, 2);
        assert.equal(purser.pays.length, 2);
      });
    }
  }

  it("of a paid answer to another 402 ends there", async (t) => {
    const purser = await fakePurser(t);
    const other = await seller(t);
    const shop = await seller(t, (_req, res) => res.writeHead(302, { Location: other.url }).end());
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url));
    assert.equal(error.code, "rejected");
    assert.equal(purser.pays.length, 1);
  });

  it("of a paid answer to nowhere is unclear", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) => res.writeHead(302, { Location: "http://127.0.0.1:1/" }).end());
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url));
    assert.equal(error.code, "unclear");
    assert.equal(paymentsOf(shop).length, 1);
  });

  it("are the program's if it says so, or an error", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) => res.writeHead(302, { Location: "/there" }).end());
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    assert.equal((await fetch(shop.url, { redirect: "manual" })).status, 302);
    assert.equal((await failure(fetch(shop.url, { redirect: "error" }))).code, "unclear");
  });

  it("whose target the runtime hides are unclear", async (t) => {
    const purser = await fakePurser(t);
    let n = 0;
    const hidden = Object.defineProperty(Response.error(), "type", { value: "opaqueredirect" });
    const fetch = wrapFetch(() => {
      return Promise.resolve(++n === 1 ? new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": challenge() } }) : hidden);
    }, { apiKey, baseUrl: purser.url });
    assert.equal((await failure(fetch("https://x.example/"))).code, "unclear");
    assert.equal(n, 2);
  });

  it("of purser do not get the API key", async (t) => {
    const thief = await serve(t, (_req, res) => json(res, 200, {}));
    const purser = await fakePurser(t, (_req, res) => res.writeHead(307, { Location: thief.url }).end());
    const shop = await seller(t);
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url));
    assert.equal(error.code, "purser-unreachable");
    assert.equal(thief.got.length, 0);
  });
});

describe("receipts", all, () => {
  it("do not hold up the answer for longer than allowed", async (t) => {
    let kept: Promise<unknown> | undefined;
    let answer: (() => void) | undefined;
    const purser = await fakePurser(t, undefined, (_req, res) => {
      answer = () => {
        json(res, 200, { payment: { id: paymentId, state: "settled", transaction: "0xcd" } });
      };
    });
    const shop = await seller(t);
    const waitUntil = (work: Promise<unknown>) => (kept = work);
    for (const receiptWait of [20, 0]) {
      const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, receiptWait, waitUntil });
      const response = await fetch(shop.url);
      assert.equal(paymentOf(response)?.state, "open");
      assert(kept);
      while (!answer) await sleep(5);
      answer();
      answer = undefined;
      await kept;
      assert.equal(paymentOf(response)?.transaction, "0xcd", "what comes later is seen as well");
    }
  });

  it("that fail change nothing, and are tried twice", async (t) => {
    for (const handler of [cut, ((_q, res) => json(res, 503, {})) as typeof cut]) {
      const purser = await fakePurser(t, undefined, handler);
      const shop = await seller(t);
      const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url);
      assert.equal(answer.status, 200);
      assert.equal(purser.receipts.length, 2);
    }
    const purser = await fakePurser(t, undefined, (_req, res) => json(res, 400, { error: "Invalid receipt" }));
    const shop = await seller(t);
    await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url);
    assert.equal(purser.receipts.length, 1);
  });

  it("are not posted for a payment without id", async (t) => {
    const purser = await fakePurser(t, (_req, res) => json(res, 200, { paymentSignature: "c2ln", settled: true, transaction: "0x" }));
    const shop = await seller(t);
    const answer = await wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick })(shop.url);
    assert.equal(purser.receipts.length, 0);
    assert.equal(paymentOf(answer)?.settled, true);
  });
});

describe("options", () => {
  const bad: [string, object][] = [
    ["no key", { apiKey: undefined }],
    ["empty key", { apiKey: "" }],
    ["key with a line break", { apiKey: "a\nb" }],
    ["no URL", { baseUrl: "purser" }],
    ["another scheme", { baseUrl: "ftp://x/" }],
    ["a query", { baseUrl: "http://x/?a" }],
    ["user", { baseUrl: "http://a:b@x/" }],
    ["number as cap", { maxAmount: 5 }],
    ["fraction as cap", { maxAmount: "1.5" }],
    ["negative cap", { maxAmount: -1n }],
    ["settlement", { settlement: "both" }],
    ["limit", { bodyLimit: -1 }],
    ["resends", { resends: 1.5 }],
    ["no time for purser", { payTimeout: 0 }],
    ["no time for the seller", { paidTimeout: 0 }],
    ["more time than timers have", { paidTimeout: 2 ** 31 }],
    ["a wait that timers do not have", { receiptWait: 2 ** 31 }],
    ["endless time", { paidTimeout: Infinity }],
    ["fetch", { purserFetch: 5 }],
  ];
  for (const [name, options] of bad) {
    it(`refuses: ${name}`, () => {
      assert.throws(() => wrapFetch(fetch, { apiKey, baseUrl: "http://127.0.0.1:1", ...options }), (error) => {
        assert(error instanceof TypeError);
        assert(!error.message.includes("a\nb") && !error.message.includes("a:b"));
        return true;
      });
    });
  }

  it("takes a base URL with a path, and bigint caps", async () => {
    const asked: string[] = [];
    const purserFetch = (input: unknown) => {
      asked.push(String(input));
      return Promise.resolve(Response.json({ error: "x" }, { status: 401 }));
    };
    const fetch = wrapFetch(
      () => Promise.resolve(new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": challenge() } })),
      { apiKey, baseUrl: new URL("https://gate.example/purser/"), purserFetch, maxAmount: 10000n },
    );
    assert.equal((await failure(fetch(new URL("https://x.example/")))).code, "key-not-resolved");
    assert.deepEqual(asked, ["https://gate.example/purser/v1/pay"]);
  });
});
