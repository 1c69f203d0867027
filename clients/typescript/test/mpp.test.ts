// Sellers that speak MPP, over real HTTP, and a purser that hands out credentials for them.
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import axios from "axios";
import got from "got";
import { paymentOf, purserErrorOf, wrapFetch } from "purserpay";
import { payWithAxios } from "purserpay/axios";
import { wrap as wrapGot } from "purserpay/got";
import { headerChallenge, bodyChallenge } from "../dist/esm/challenge.js";
import { mppChallenge } from "../dist/esm/mpp.js";
import { apiKey, cut, discreet, failure, fakePurser, json, quick, serve, vectors } from "./fake.js";

type Pairs = [string, string][];

interface Exchange {
  name: string;
  asks: string[];
  authorization?: string;
  options?: { maxAmount: string };
  paymentHeader: string;
  paymentSignature: string;
  seller: ("lost" | { status: number; asks?: boolean; headers?: Pairs })[];
  expect: { sends: number; pays: number; status?: number; code?: string; reason?: string; posted: string[]; amount?: string | null };
}

interface File {
  challenges: {
    name: string;
    headers: Pairs;
    authorization?: string;
    body?: string;
    expect: { kind: string; source?: string; sent?: string; offers?: unknown };
  }[];
  exchanges: Exchange[];
}

const { challenges, exchanges } = vectors<File>("mpp.json");
const problem = { type: "https://paymentauth.org/problems/verification-failed", title: "Payment verification failed", status: 402 };

describe("MPP's challenges", () => {
  for (const c of challenges) {
    it(c.name, () => {
      const header = (name: string) => c.headers.find(([n]) => n.toLowerCase() === name.toLowerCase())?.[1] ?? null;
      const find = () => headerChallenge(header, []) ?? mppChallenge(header, c.authorization !== undefined) ?? bodyChallenge(Buffer.from(c.body ?? ""));
      if (c.expect.kind === "refused") {
        assert.throws(find, { code: "refused-by-caller", rule: "authorization-in-use" });
        return;
      }
      const { source, sent, offers } = find() ?? {};
      const { kind, ...want } = c.expect;
      assert.deepEqual(kind === "none" ? source : { source, sent, offers }, kind === "none" ? undefined : want);
    });
  }
});

/** A purser that hands out the case's credential, and its seller. */
async function play(t: TestContext, c: Exchange) {
  const purser = await fakePurser(t, (_req, res) => {
    const { paymentHeader, paymentSignature } = c;
    json(res, 200, { paymentHeader, paymentSignature, settled: false, transaction: "", payment: { id: "p1", state: "open", flags: [] } });
  });
  const sent: string[] = [];
  const seller = await serve(t, (req, res, _body, n) => {
    const ask = { "WWW-Authenticate": c.asks.map((one) => one.replace("%d", String(n))) };
    const header = req.headers[c.paymentHeader.toLowerCase()];
    if (header !== c.paymentSignature) return json(res, 402, problem, ask);
    sent.push(header);
    const says = c.seller[sent.length - 1] ?? "lost";
    if (says === "lost") return cut(req, res, "", n);
    return json(res, says.status, problem, { ...(says.asks ? ask : {}), ...Object.fromEntries(says.headers ?? []) });
  });
  return { purser, seller, sent };
}

describe("paying by MPP", { concurrency: true }, () => {
  for (const c of exchanges) {
    it(c.name, async (t) => {
      const { purser, seller, sent } = await play(t, c);
      const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick, ...c.options });
      const headers: Record<string, string> = c.authorization === undefined ? {} : { Authorization: c.authorization };
      const answer = await fetch(seller.url, { headers }).catch((error: unknown) => error);
      const { expect } = c;
      assert.deepEqual([sent.length, purser.pays.length], [expect.sends, expect.pays]);
      assert.deepEqual(purser.receipts.map(({ receipt }) => receipt), expect.posted);
      if (expect.pays > 0) assert.match(purser.pays[0]?.["paymentRequiredHeader"] ?? "", /^Payment id="fresh-1"/);
      if (answer instanceof Response) {
        assert.equal(answer.status, expect.status);
        if (expect.amount !== undefined) assert.equal(paymentOf(answer)?.amount, expect.amount ?? undefined);
      } else {
        const error = purserErrorOf(answer);
        assert.equal(error?.code, expect.code);
        if (expect.reason) assert.equal((error as { reason?: string }).reason, expect.reason);
        await discreet(error);
        assert(c.paymentSignature.length < 60 || !JSON.stringify(error).includes(c.paymentSignature.slice(8, 60)));
      }
      if (c.authorization) assert(seller.got.every(({ headers: { authorization } }) => authorization === c.authorization));
    });
  }

  const whole = exchanges.find(({ name }) => name.startsWith("the credential is sent"));
  assert(whole);
  const own = exchanges.find(({ name }) => name.startsWith("beside an Authorization"));
  assert(own);

  it("is repeated by a program with the same credential, under the same key", async (t) => {
    const ask = { status: 402, asks: true };
    const { purser, seller, sent } = await play(t, { ...whole, seller: [ask, ask, ask, { status: 200 }] });
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    assert.equal((await failure(fetch(seller.url))).code, "rejected");
    assert.equal((await fetch(seller.url)).status, 200);
    assert.deepEqual([sent.length, new Set(purser.pays.map((p) => p.idempotencyKey)).size], [4, 1]);
  });

  it("ends when the program gives up between two sends", async (t) => {
    const { purser } = await play(t, whole);
    const giving = new AbortController();
    const shop = await serve(t, (req, res) => {
      const ask = { "WWW-Authenticate": whole.asks, "Retry-After": "5" };
      if (!req.headers.authorization) return json(res, 402, problem, ask);
      res.once("close", () => giving.abort()); // the client needs no more of this answer, and waits
      return res.writeHead(402, ask).write("{");
    });
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    assert.equal((await failure(fetch(shop.url, { signal: giving.signal }))).code, "unclear");
  });

  it("has another answer than an error with return402", async (t) => {
    const { purser, seller } = await play(t, whole);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick, return402: true });
    const answer = await fetch(seller.url, { headers: { Authorization: "Bearer own" } });
    assert.deepEqual([answer.status, answer.headers.get("Purser-Error"), purser.pays.length], [402, "refused-by-caller", 0]);
  });

  for (const status of [302, 307]) {
    it(`sends no credential to another origin (${status})`, async (t) => {
      const { purser, sent } = await play(t, whole);
      const end = await serve(t, (_req, res) => json(res, 200, {}));
      const shop = await serve(t, (req, res) => {
        if (req.headers.authorization !== whole.paymentSignature) return json(res, 402, problem, { "WWW-Authenticate": whole.asks });
        sent.push("");
        return res.writeHead(status, { Location: end.url.replace("127.0.0.1", "localhost") }).end();
      });
      const options = { apiKey, baseUrl: purser.url, ...quick };
      const instance = axios.create({ proxy: false });
      payWithAxios(instance, options);
      const buying = [
        () => wrapFetch(globalThis.fetch, options)(shop.url).then((r) => r.status),
        () => instance.get(shop.url).then((r) => r.status),
        () => wrapGot(got, options)(shop.url).then((r) => r.statusCode),
      ];
      for (const buy of buying) assert.equal(await buy(), 200);
      assert.deepEqual([sent.length, end.got.length], [3, 3]);
      for (const { headers } of end.got) assert.equal(headers.authorization ?? headers["payment-authorization"], undefined);
    });
  }

  it("works with axios and got, and takes the credential out of what they tell", async (t) => {
    for (const c of [whole, own]) {
      const good = { status: 200 };
      const { purser, seller, sent } = await play(t, { ...c, seller: [good, good] });
      const options = { apiKey, baseUrl: purser.url, ...quick };
      const headers: Record<string, string> = c.authorization === undefined ? {} : { Authorization: c.authorization };
      const instance = axios.create({ proxy: false });
      payWithAxios(instance, options);
      const one = await instance.get(seller.url, { headers });
      const other = await wrapGot(got, options)(seller.url, { headers });
      assert.deepEqual([one.status, other.statusCode, sent.length], [200, 200, 2]);
      const secret = c.paymentSignature.slice(8, 60);
      assert(!JSON.stringify([one.config.headers, other.request.options.headers]).includes(secret));
    }
  });

  it("leaves what axios has for a user and a password alone", async (t) => {
    const { purser, seller } = await play(t, whole);
    const instance = axios.create({ proxy: false });
    payWithAxios(instance, { apiKey, baseUrl: purser.url, ...quick });
    const user = seller.url.replace("//", "//name:word@");
    for (const [url, auth] of [[seller.url, { username: "name", password: "word" }], [user, undefined]] as const) {
      const error = purserErrorOf(await failure(instance.get(url, auth ? { auth } : {})));
      assert.equal(error && "rule" in error ? error.rule : undefined, "authorization-in-use");
    }
    assert.equal(purser.pays.length, 0);
  });

  it("is not done for got.stream", async (t) => {
    const { purser, seller } = await play(t, whole);
    const stream = wrapGot(got, { apiKey, baseUrl: purser.url, ...quick }).stream(seller.url);
    const error = purserErrorOf(await failure((async () => { for await (const _ of stream); })()));
    assert.deepEqual([error?.code, purser.pays.length], ["not-replayable", 0]);
  });
});
