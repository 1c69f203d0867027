// purser's API as objects, and the memory of keys.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import { createClient } from "purserpay";
import { contentOf } from "../dist/esm/body.js";
import { Digest } from "../dist/esm/digest.js";
import { Jobs } from "../dist/esm/jobs.js";
import type { PaymentSummary } from "purserpay";
import { Memory } from "../dist/esm/memory.js";
import { apiKey, failure, json, seller, serve, fakePurser, quick } from "./fake.js";
import { decodeBase64, encodeBase64 } from "../dist/esm/base64.js";

describe("API objects", { concurrency: true }, () => {
  it("call the endpoints", async (t) => {
    const wallet = { id: "w", wallet_id: "local_w", network: "base", address: null };
    const payment = { id: "p/1", state: "open", flags: [], validBefore: "" };
    const purser = await serve(t, (req, res) => {
      const known: Record<string, [number, unknown]> = {
        "POST /api-keys": [201, { id: "k", label: "l", key: "pk_new" }],
        "GET /wallets/me": [200, { wallets: [wallet] }],
        "POST /wallets": [201, wallet],
        "DELETE /wallets/a%2Fb": [204, undefined],
        "POST /v1/pay": [200, { paymentSignature: "c2ln", settled: true, transaction: "0x", paymentHeader: "X-PAYMENT", payment }],
        "GET /v1/payments/p%2F1": [200, { payment }],
        "POST /v1/payments/p%2F1/receipt": [200, { payment }],
        "GET /v1/payments?state=open&limit=5&before=x": [200, { payments: [payment] }],
        "GET /v1/spend?task=t&limit=1": [200, { events: [], pending: { count: 0, amount: "0" } }],
      };
      const [status, body] = known[`${req.method} ${req.url}`] ?? [404, { error: "Not found" }];
      if (body === undefined) return res.writeHead(status).end();
      return json(res, status, body);
    });
    const c = createClient({ apiKey, baseUrl: `${purser.url}/` });
    const organization = { organizationId: "o", plan: "FREE", internalSecret: "s3cret" };
    assert.equal((await c.keys.create({ label: "l", ...organization })).key, "pk_new");
    assert.equal(purser.got[0]?.headers["x-internal-secret"], "s3cret");
    assert.deepEqual(JSON.parse(purser.got[0].body), { label: "l", organization_id: "o", plan: "FREE" });
    assert.deepEqual(await c.wallets.list(), [wallet]);
    assert.deepEqual(await c.wallets.create({ network: "base" }), wallet);
    assert.equal(await c.wallets.delete("a/b"), undefined);
    assert.equal((await c.pay({ paymentRequiredHeader: "e30=" })).payment.id, "p/1");
    assert.deepEqual(JSON.parse(purser.got[4]?.body ?? ""), { paymentRequiredHeader: "e30=" });
    assert.equal((await c.payments.get("p/1")).id, "p/1");
    assert.equal((await c.payments.receipt("p/1", "r")).id, "p/1");
    assert.equal((await c.payments.list({ state: "open", limit: 5, before: "x" })).length, 1);
    assert.deepEqual((await c.spend.list({ task: "t", limit: 1 })).pending, { count: 0, amount: "0" });
    assert(purser.got.every((g) => g.headers["x-api-key"] === apiKey));
    await createClient({ baseUrl: purser.url }).keys.create();
    assert.equal(purser.got.at(-1)?.headers["x-api-key"], undefined);
    const error = await failure(c.payments.get("other"));
    assert.deepEqual([error.code, error.status], ["request-refused", 404]);
  });

  it("walk through all pages", async (t) => {
    const ids = Array.from({ length: 25 }, (_, n) => `e${n}`);
    const purser = await serve(t, (req, res) => {
      const { searchParams: q, pathname } = new URL(req.url ?? "", "http://x");
      const from = q.has("before") ? ids.indexOf(q.get("before") ?? "") + 1 : 0;
      const page = ids.slice(from, from + Number(q.get("limit"))).map((id) => ({ id }));
      return json(res, 200, pathname === "/v1/spend" ? { events: page, pending: {} } : { payments: page });
    });
    const c = createClient({ apiKey, baseUrl: purser.url });
    for (const all of [c.spend.all({ pageSize: 10 }), c.payments.all({ state: "open", pageSize: 5 }), c.spend.all()]) {
      const seen: string[] = [];
      for await (const entry of all) seen.push(entry.id);
      assert.deepEqual(seen, ids);
    }
    assert.equal(purser.got.length, 3 + 6 + 1);
    assert.equal(purser.got[4]?.url, "/v1/payments?state=open&limit=5&before=e4");
    let n = 0;
    for await (const _ of c.spend.all({ pageSize: 10 })) if (++n === 3) break;
    assert.equal(purser.got.length, 11, "pages that nobody wants are not asked for");
  });

  it("do not walk in circles", async (t) => {
    const purser = await serve(t, (_req, res) => json(res, 200, { events: [{ id: "same" }], pending: {} }));
    let n = 0;
    for await (const _ of createClient({ apiKey, baseUrl: purser.url }).spend.all({ pageSize: 1 })) n++;
    assert.equal(n, 2);
  });

  it("fail as they should", async (t) => {
    const purser = await serve(t, (_req, res) => json(res, 200, {}));
    const c = createClient({ apiKey, baseUrl: purser.url, payTimeout: 5000 });
    const work = [c.wallets.list(), c.wallets.create(), c.pay({ paymentRequiredHeader: "x" }), c.payments.get("x"), c.spend.list()];
    for (const error of await Promise.all(work.map(failure))) assert.equal(error.code, "purser-unreachable");
    assert.equal((await failure(c.wallets.list({ signal: AbortSignal.abort() }))).name, "AbortError");
    const controller = new AbortController();
    const silent = await serve(t, () => {
      controller.abort();
    });
    const s = createClient({ apiKey, baseUrl: silent.url, payTimeout: 60_000 });
    assert.equal((await failure(s.wallets.list({ signal: controller.signal }))).name, "AbortError");
    assert.equal((await failure(createClient({ apiKey, baseUrl: silent.url, payTimeout: 50 }).wallets.list())).code, "purser-unreachable");
    const full = await serve(t, (_req, res) => json(res, 429, { error: "Wallet limit reached for your plan", upgradeUrl: "u" }));
    assert.equal((await failure(createClient({ apiKey, baseUrl: full.url }).wallets.create())).upgradeUrl, "u");
  });
});

describe("client", () => {
  it("sends paid requests", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const c = createClient({ apiKey, baseUrl: purser.url, ...quick });
    assert.equal((await c.get(shop.url)).status, 200);
    assert.deepEqual(await (await c.post(shop.url, { json: { a: 1 } })).json(), { report: "sunny", body: '{"a":1}' });
    assert.equal(shop.got.at(-1)?.headers["content-type"], "application/json");
    await c.request("PUT", shop.url, { json: [], headers: { "Content-Type": "application/x-list" } });
    assert.equal(shop.got.at(-1)?.headers["content-type"], "application/x-list");
    assert.equal((await c.fetch(shop.url)).status, 200);
    assert.equal(purser.pays.length, 4);
  });

  it("needs a fetch", (t) => {
    const { fetch } = globalThis;
    // @ts-expect-error older runtimes lack it
    globalThis.fetch = undefined;
    t.after(() => {
      globalThis.fetch = fetch;
    });
    assert.throws(() => createClient({ apiKey, baseUrl: "http://x/" }), TypeError);
    assert.throws(() => createClient({ apiKey, baseUrl: "http://x/", fetch }), TypeError);
  });
});

describe("memory", () => {
  const id = (url: string, body = "") => ({ method: "GET", urls: [url], digest: body });

  it("gives each key once, the oldest first", () => {
    let now = 0;
    const memory = new Memory(() => ++now);
    memory.put(id("a"), "1");
    memory.put(id("a"), "2");
    memory.put(id("a", "body"), "3");
    memory.put({ ...id("a"), method: "PUT" }, "4");
    memory.put(id("a"), "0", 0);
    assert.deepEqual(["0", "1", "2", undefined], [1, 2, 3, 4].map(() => memory.take(id("a"))?.key));
    assert.equal(memory.take(id("a", "bodx")), undefined);
    assert.equal(memory.take(id("a", "body"))?.key, "3");
    assert.equal(memory.take({ ...id("a"), method: "PUT" })?.key, "4");
    memory.put(id("a"), "5");
    memory.drop("5");
    assert.equal(memory.take(id("a")), undefined);
  });

  it("takes one URL in common for the same request, and a key for one request at a time", () => {
    const memory = new Memory();
    const led = (...urls: string[]) => ({ ...id(""), urls });
    memory.put(led("asked", "first"), "k");
    assert.equal(memory.take(led("other", "second")), undefined);
    assert.equal(memory.take(led("asked", "second"))?.key, "k");
    memory.put(led("asked", "first"), "k");
    memory.put(led("asked", "first"), "k");
    assert.equal(memory.take(led("first", "first"))?.key, "k");
    assert.equal(memory.take(led("first", "first")), undefined);
  });

  it("forgets after seven minutes", () => {
    let now = 0;
    const memory = new Memory(() => now);
    memory.put(id("a"), "1");
    memory.put(id("a"), "2");
    now = 7 * 60_000 - 1;
    assert.equal(memory.take(id("a"))?.key, "1");
    now++;
    assert.equal(memory.take(id("a")), undefined);
  });

  it("keeps 256 keys", () => {
    const memory = new Memory();
    for (let n = 0; n < 300; n++) memory.put(id(String(n)), String(n));
    assert.equal(memory.take(id("43")), undefined);
    assert.equal(memory.take(id("44"))?.key, "44");
  });
});

describe("jobs", () => {
  it("are 256 at most, and are forgotten once their payment cannot be valid any more", async () => {
    const jobs = new Jobs();
    const from = new URL("https://api.example.com/orders");
    const summary: PaymentSummary = { ...{ id: "1", state: "open", transaction: "", settled: false, idempotencyKey: "k" }, ...{ amount: "1", host: "h", payTo: "p", task: undefined } };
    const paid = { header: { name: "X-PAYMENT", value: "x" }, settled: false, transaction: "", paymentId: "1", state: "open" };
    const place = (n: number) => `https://api.example.com/jobs/${n}`;
    const note = (n: number, since: number) => {
      const header = (name: string) => (name === "Location" ? place(n) : null);
      const sent = { answer: {}, status: 202, header, page: () => Promise.resolve(new Uint8Array()), discard: () => undefined };
      return jobs.note(sent, from, { key: `k${n}`, paid, summary, since }, false);
    };
    for (let n = 0; n < 257; n++) await note(n, performance.now());
    assert.deepEqual([0, 1, 256].map((n) => jobs.at(from, new URL(place(n)))?.key), [undefined, "k1", "k256"]);
    await note(1, performance.now() - 421_000);
    assert.equal(jobs.at(new URL(place(1))), undefined);
  });
});

describe("digests", () => {
  it("are SHA-256, whatever the pieces", () => {
    for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 70_000]) {
      const bytes = randomBytes(length);
      for (const cut of [0, 1, 63, 64, length]) {
        const digest = new Digest();
        digest.add(bytes.subarray(0, cut));
        digest.add(bytes.subarray(cut));
        assert.equal(digest.hex(), createHash("sha256").update(bytes).digest("hex"));
      }
    }
  });

  it("tell bodies of all kinds apart", async () => {
    const form = (...entries: [string, string | Blob][]) => {
      const made = new FormData();
      for (const [name, value] of entries) made.append(name, value);
      return made;
    };
    const digestOf = async (body: RequestInit["body"]) =>
      (await contentOf({ method: "POST", url: new URL("https://shop.test"), header: () => null, body: () => body })).digest;
    const file = (name: string) => new File(["x"], name, { type: "text/plain" });
    const bodies = [
      ...["", "a", "b", new Blob(["blob"]), new URLSearchParams({ a: "c" }), new Uint16Array([1, 2])],
      ...[form(["a", "bc"]), form(["ab", "c"]), form(["a", "b"], ["c", ""]), form(["a", file("1")]), form(["a", file("2")])],
    ];
    const digests = await Promise.all(bodies.map((body) => digestOf(body)));
    assert.equal(new Set(digests).size, bodies.length);
    for (const same of [new Blob(["a"]), Buffer.from("a"), new TextEncoder().encode("a").buffer, Readable.from(["a"]), new Blob(["a"]).stream()]) {
      assert.equal(await digestOf(same as RequestInit["body"]), digests[1]);
    }
    assert.equal(await digestOf(undefined), digests[0]);
  });
});

describe("base64", () => {
  it("is the standard one, of any length", () => {
    for (const length of [0, 1, 2, 3, 8191, 8192, 8193, 50_000]) {
      const bytes = Buffer.from(Array.from({ length }, (_, i) => i * 7));
      assert.equal(encodeBase64(bytes), bytes.toString("base64"));
      assert.deepEqual(Buffer.from(decodeBase64(bytes.toString("base64"))), bytes);
      assert.deepEqual(Buffer.from(decodeBase64(bytes.toString("base64url"))), bytes);
    }
    for (const bad of ["a", "ab cd", "+-", "====", "é", "a\n"]) assert.throws(() => decodeBase64(bad));
  });
});
