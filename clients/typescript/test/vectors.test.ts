// The rules that both languages share.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  createClient,
  type Fetch,
  isPurserError,
  type Payment,
  paymentOf,
  type PaymentOptions,
  type Quote,
  type QuotedOffer,
  wrapFetch,
} from "purserpay";
import { announced } from "../dist/esm/asked.js";
import { bodyChallenge, dealtWith, headerChallenge } from "../dist/esm/challenge.js";
import { apiKey, b64, challenge, failure, paymentId, signature, vectors } from "./fake.js";

type Pairs = [string, string][];

const baseUrl = "http://127.0.0.1:8402";
const ok = (over: object = {}) => ({
  paymentSignature: signature(),
  settled: false,
  transaction: "",
  paymentHeader: "PAYMENT-SIGNATURE",
  payment: { id: paymentId, state: "open", flags: [], validBefore: "2026-11-22T10:00:00Z" },
  ...over,
});

describe("challenges", () => {
  interface Case {
    name: string;
    headers: Pairs;
    body: string;
    extraHeaders: string[];
    expect: { kind: string; version?: number; source?: string; sent?: string; offers?: unknown };
  }
  for (const c of vectors<{ cases: Case[] }>("challenges.json").cases) {
    it(c.name, () => {
      const header = (name: string) => c.headers.find(([n]) => n.toLowerCase() === name.toLowerCase())?.[1] ?? null;
      const find = () =>
        dealtWith(header) ? undefined : (headerChallenge(header, c.extraHeaders) ?? bodyChallenge(Buffer.from(c.body)));
      if (c.expect.kind === "invalid") {
        assert.throws(find, { code: "invalid-challenge" });
        return;
      }
      const found = find();
      if (c.expect.kind === "none") {
        assert.equal(found, undefined);
        return;
      }
      const { version, source, sent, offers } = found ?? {};
      const { kind: _, ...want } = c.expect;
      assert.deepEqual({ version, source, sent, offers }, want);
    });
  }
});

describe("answers", { concurrency: true }, () => {
  interface Case {
    name: string;
    status: number;
    headers: Pairs;
    body: string;
    settlement?: "payer";
    expect: Record<string, unknown> & { tries: number; header?: string; value?: string; code?: string };
  }
  for (const c of vectors<{ cases: Case[] }>("answers.json").cases) {
    it(c.name, async () => {
      let tries = 0;
      const sent: Headers[] = [];
      const bodies = new Set<string>();
      const purserFetch: Fetch = (input, init) => {
        tries++;
        assert.equal(String(input), `${baseUrl}/v1/pay`);
        assert.equal(init?.redirect, "manual");
        bodies.add(String(init.body));
        return Promise.resolve(new Response(c.status === 204 ? null : c.body, { status: c.status, headers: c.headers }));
      };
      const fetch: Fetch = (_input, init) => {
        sent.push(new Headers(init?.headers));
        const paid = sent.length > 1;
        return Promise.resolve(paid ? new Response("goods") : new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": asked } }));
      };
      const paying = wrapFetch(fetch, { apiKey, baseUrl, purserFetch, settlement: c.settlement ?? "seller" });
      const { tries: wanted, header, value, code, paymentId: id, ...more } = c.expect;
      if (header !== undefined) {
        const response = await paying("https://api.example.com/paid");
        assert.equal(await response.text(), "goods");
        assert.equal(sent[1]?.get(header), value);
      } else {
        const error = await failure(paying("https://api.example.com/paid"));
        assert(isPurserError(error));
        assert.equal(error.code, code);
        if (id !== undefined) assert.equal(error.paymentId ?? null, id);
        assert.equal(sent.length, 1, "nothing may be sent to the seller");
        for (const [name, want] of Object.entries(more)) assert.deepEqual((error as unknown as Record<string, unknown>)[name], want, name);
      }
      assert.equal(tries, wanted);
      assert.equal(bodies.size, 1, "every try has the same key and body");
    });
  }
  const asked = vectors<{ cases: { challenge: string }[] }>("caps.json").cases[0]?.challenge ?? "";
});

describe("caps", () => {
  interface Case {
    name: string;
    url: string;
    options: { maxAmount?: string; allowHosts?: string[]; beforePayment?: string };
    challenge: string;
    signed: { to: string; value: string } | null;
    expect: string;
  }
  for (const c of vectors<{ cases: Case[] }>("caps.json").cases) {
    it(c.name, async () => {
      let asked = 0;
      const sent: string[] = [];
      const purserFetch: Fetch = () => {
        asked++;
        const paymentSignature = c.signed ? signature(c.signed.value, c.signed.to) : b64("signed");
        return Promise.resolve(Response.json(ok({ paymentSignature })));
      };
      const fetch: Fetch = (_input, init) => {
        const payment = new Headers(init?.headers).get("PAYMENT-SIGNATURE");
        if (payment === null) return Promise.resolve(new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": c.challenge } }));
        sent.push(payment);
        return Promise.resolve(new Response("goods"));
      };
      const { beforePayment, ...options } = c.options;
      const callbacks: Record<string, () => boolean> = {
        true: () => true,
        false: () => false,
        nothing: () => undefined as unknown as boolean,
        throw: () => {
          throw new Error("no");
        },
      };
      const callback = beforePayment === undefined ? undefined : callbacks[beforePayment];
      const paying = wrapFetch(fetch, { apiKey, baseUrl, purserFetch, ...options, ...(callback && { beforePayment: callback }) });
      if (c.expect === "pay") {
        assert.equal(await (await paying(c.url)).text(), "goods");
        assert.equal(sent.length, 1);
        return;
      }
      const error = await failure(paying(c.url));
      const code = c.expect === "invalid-challenge" ? c.expect : "refused-by-caller";
      assert.equal(error.code, code);
      if (code === "refused-by-caller") assert.equal(error.rule, c.expect);
      assert.equal(asked, c.expect === "signed-terms" ? 1 : 0, "purser is asked only after all caps");
      if (c.expect === "signed-terms") assert.equal(error.paymentId, paymentId);
      assert.equal(sent.length, 0);
      if (beforePayment === "nothing") assert(error.cause instanceof TypeError);
      assert.equal((error.response as Response).status, 402);
      assert.equal(await (error.response as Response).text(), "{}", "the 402 stays readable");
    });
  }
});

describe("headers", () => {
  interface File {
    requests: { name: string; headers: Pairs; touched: boolean; idempotencyKey?: string | null }[];
    receipts: { name: string; headers: Pairs; posted: string | null }[];
  }
  const { requests, receipts } = vectors<File>("headers.json");
  const challenge = b64({ x402Version: 2, accepts: [] });
  for (const c of requests) {
    it(c.name, async () => {
      const keys: string[] = [];
      const purserFetch: Fetch = (_input, init) => {
        keys.push((JSON.parse(String(init?.body)) as { idempotencyKey: string }).idempotencyKey);
        return Promise.resolve(Response.json(ok()));
      };
      let n = 0;
      const refusal = new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": challenge } });
      const paying = wrapFetch(() => Promise.resolve(++n === 1 ? refusal : new Response()), { apiKey, baseUrl, purserFetch });
      const response = await paying("https://api.example.com/", { headers: c.headers });
      assert.equal(response === refusal, !c.touched);
      assert.equal(keys.length, c.touched ? 1 : 0);
      if (typeof c.idempotencyKey === "string") assert.equal(keys[0], c.idempotencyKey);
      else if (c.touched) assert.match(keys[0] ?? "", /^client-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    });
  }
  for (const c of receipts) {
    it(`receipt: ${c.name}`, async () => {
      const posted: string[] = [];
      const purserFetch: Fetch = (input, init) => {
        if (String(input).endsWith("/v1/pay")) return Promise.resolve(Response.json(ok()));
        assert.equal(String(input), `${baseUrl}/v1/payments/${paymentId}/receipt`);
        posted.push((JSON.parse(String(init?.body)) as { receipt: string }).receipt);
        return Promise.resolve(Response.json({ payment: { id: paymentId } }));
      };
      let n = 0;
      const answers = () =>
        ++n === 1
          ? new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": challenge } })
          : new Response("goods", { headers: c.headers });
      await wrapFetch(() => Promise.resolve(answers()), { apiKey, baseUrl, purserFetch })("https://api.example.com/");
      assert.deepEqual(posted, c.posted === null ? [] : [c.posted]);
    });
  }
});

describe("objects", { concurrency: true }, () => {
  interface File {
    quote: Quote;
    payment: Payment;
    refusals: { name: string; status: number; body: unknown; code: string; offers: QuotedOffer[] | null }[];
  }
  const { quote, payment, refusals } = vectors<File>("api.json");
  const all = <T>(of: Record<keyof T, true>) => Object.keys(of).sort();
  const members = {
    quote: all<Quote>({
      ...{ amount: true, price: true, currency: true, network: true, asset: true, payTo: true },
      ...{ protocol: true, rail: true, gas: true, wallet: true, repeats: true, offers: true },
    }),
    offer: all<QuotedOffer>({
      ...{ protocol: true, rail: true, network: true, asset: true, amount: true, price: true, payTo: true, expires: true },
      ...{ pays: true, reason: true, detail: true },
    }),
    payment: all<Payment>({
      ...{ id: true, state: true, flags: true, validBefore: true, protocol: true, rail: true, settlement: true, amount: true },
      ...{ charged: true, currency: true, network: true, payTo: true, request_url: true, transaction: true, created_at: true },
      ...{ reason: true, task: true, sellerSaid: true, signedReceipt: true },
    }),
  };
  const client = (status: number, body: unknown) =>
    createClient({ apiKey, baseUrl, purserFetch: () => Promise.resolve(Response.json(body, { status })) });

  it("have all members that purser tells", async () => {
    const told = await client(200, quote).quote({ paymentRequiredHeader: "e30=" });
    assert.deepEqual(told, quote);
    assert.deepEqual(Object.keys(told).sort(), members.quote);
    assert.deepEqual(Object.keys(told.offers?.[1] ?? {}).sort(), members.offer);
    const paid = await client(200, { payment }).payments.get("1");
    assert.deepEqual(paid, payment);
    assert.deepEqual(Object.keys(paid).sort(), members.payment);
  });
  for (const c of refusals) {
    it(c.name, async () => {
      const error = await failure(client(c.status, c.body).pay({ paymentRequiredHeader: "e30=" }));
      assert.equal(error.code, c.code);
      assert.deepEqual(error["offers"] ?? null, c.offers);
    });
  }
});

type Said = "lost" | "pays" | number | { status: number; headers?: Pairs; body?: string };

/** An answer of a server; `lost` is none. */
function says(said: Said): Promise<Response> {
  if (said === "lost") return Promise.reject(new TypeError("lost"));
  if (said === "pays") return Promise.resolve(Response.json(ok()));
  const { status, headers = [], body = "" } = typeof said === "number" ? { status: said } : said;
  return Promise.resolve(new Response(body, { status, headers }));
}

/** A program whose seller and purser give these answers. */
function world(
  purser: (n: number) => Said,
  seller: (n: number) => Said,
  options: Partial<PaymentOptions> = {},
  moves = false,
  first: number[] = [],
) {
  const pays: Record<string, string>[] = [];
  const receipts: string[] = [];
  const paid: Headers[] = [];
  let sends = 0;
  const purserFetch: Fetch = (input, init) => {
    const body = JSON.parse(String(init?.body)) as Record<string, string>;
    if (String(input).endsWith("/v1/pay")) return says(purser(pays.push(body) - 1));
    receipts.push(body["receipt"] ?? "");
    return Promise.resolve(Response.json({ payment: { id: paymentId, state: "settled" } }));
  };
  let led = 0;
  const fetch: Fetch = async (input, init) => {
    const headers = new Headers(init?.headers);
    if (headers.has("PAYMENT-SIGNATURE")) {
      paid.push(headers);
      return says(seller(sends++));
    }
    const free = first.shift() ?? 402;
    if (free !== 402) return says(free);
    const answer = await says({ status: 402, headers: [["PAYMENT-REQUIRED", challenge()]], body: "{}" });
    const from = { url: moves ? `${String(input)}?led=${++led}` : String(input), redirected: moves };
    return Object.defineProperties(answer, { url: { value: from.url }, redirected: { value: from.redirected } });
  };
  return { fetch: wrapFetch(fetch, { apiKey, baseUrl, purserFetch, ...options }), pays, receipts, paid, sends: () => sends };
}

describe("repeats", { concurrency: true }, () => {
  interface Case {
    name: string;
    settlement: "seller" | "payer";
    options?: { maxAmount: string };
    moves?: boolean;
    says?: Pairs[];
    first?: number[];
    purser: Said[];
    seller: Said[];
    expect: { codes: (string | null)[]; keys: number[] };
  }
  for (const c of vectors<{ cases: Case[] }>("repeats.json").cases) {
    it(c.name, async () => {
      const w = world((n) => c.purser[n] ?? "lost", (n) => c.seller[n] ?? "lost", { settlement: c.settlement, ...c.options }, c.moves, [...(c.first ?? [])]);
      const codes: (string | null)[] = [];
      for (const n of c.expect.codes.keys()) {
        try {
          await w.fetch("https://api.example.com/paid", { headers: c.says?.[n] ?? [] });
          codes.push(null);
        } catch (error) {
          if (!isPurserError(error)) throw error;
          codes.push(error.code);
        }
      }
      assert.deepEqual(codes, c.expect.codes);
      const keys = w.pays.map((p) => p["idempotencyKey"]);
      const seen = [...new Set(keys)];
      assert.deepEqual(keys.map((k) => seen.indexOf(k)), c.expect.keys);
    });
  }
});

describe("what requests say of themselves", () => {
  interface File {
    unasked: { name: string; method: string; url: string; headers: Pairs; expect: boolean }[];
    waits: { name: string; headers: Pairs; seconds: number }[];
  }
  const { unasked, waits } = vectors<File>("asked.json");
  for (const { name, method, url, headers, expect } of unasked) {
    it(name, async () => {
      const w = world(() => "pays", () => 200);
      const answer = w.fetch(url, { method, headers });
      if (expect) {
        const error = await failure(answer);
        assert.deepEqual([error.code, error.rule, error.moneyMayHaveMoved], ["refused-by-caller", "unasked", false]);
        assert.equal((error.response as Response).status, 402);
      } else assert.equal((await answer).status, 200);
      assert.equal(w.pays.length, expect ? 0 : 1);
    });
  }
  for (const { name, headers, seconds } of waits) {
    it(`waits: ${name}`, () => {
      const given = new Headers(headers);
      assert.equal(announced((header) => given.get(header)), 1000 * seconds);
    });
  }
});

describe("jobs", { concurrency: true }, () => {
  interface Case {
    name: string;
    steps: { method: string; url: string; answer: { status: number; headers: Pairs; body: string } }[];
    expect: { pays: number; codes: (string | null)[] };
  }
  for (const c of vectors<{ cases: Case[] }>("jobs.json").cases) {
    it(c.name, async () => {
      const told: unknown[] = [];
      const w = world(() => "pays", (n) => c.steps[n]?.answer ?? "lost", { resends: 0, onPayment: (info) => told.push(info) });
      const codes: (string | null)[] = [];
      for (const { method, url } of c.steps) {
        try {
          const answer = await w.fetch(url, { method, maxAmount: 10_000n });
          assert.equal(paymentOf(answer)?.id, paymentId);
          await answer.text();
          codes.push(null);
        } catch (error) {
          if (!isPurserError(error)) throw error;
          assert.equal(error.moneyMayHaveMoved, true);
          codes.push(error.code);
        }
      }
      assert.deepEqual([codes, w.pays.length, told.length], [c.expect.codes, c.expect.pays, c.expect.pays]);
    });
  }
});

describe("paid answers", { concurrency: true }, () => {
  interface Case {
    name: string;
    /** What purser hands out, beside the usual payment. */
    payment?: object;
    answers: Said[];
    expect: { sends: number; posted: string[]; status?: number; code?: string; reason?: string; slim?: object };
  }
  for (const c of vectors<{ cases: Case[] }>("paid.json").cases) {
    it(c.name, async () => {
      const common = JSON.parse(atob(signature())) as object;
      const value = (more?: object) => btoa(JSON.stringify({ ...common, ...more }));
      const pays = { status: 200, body: JSON.stringify(ok({ paymentSignature: value(c.payment) })) };
      const w = world(() => pays, (n) => c.answers[n] ?? "lost");
      const answer = w.fetch("https://api.example.com/paid");
      if (c.expect.code === undefined) assert.equal((await answer).status, c.expect.status);
      else {
        const error = await failure(answer);
        assert.equal(error.code, c.expect.code);
        if (c.expect.reason !== undefined) assert.equal(error.reason, c.expect.reason);
      }
      assert.equal(w.sends(), c.expect.sends);
      assert.deepEqual(w.receipts, c.expect.posted);
      for (const [name, want] of [["Cache-Control", "no-cache"], ["Pragma", "no-cache"]] as const) {
        assert.deepEqual(w.paid.map((h) => h.get(name)), w.paid.map(() => want));
      }
      const last: unknown = JSON.parse(atob(w.paid.at(-1)?.get("PAYMENT-SIGNATURE") ?? ""));
      assert.deepEqual(last, { ...common, ...(c.expect.slim ?? c.payment) });
    });
  }
});

describe("urls", () => {
  interface Case {
    name: string;
    url: string;
    requestUrl: string;
    shown: string;
  }
  for (const c of vectors<{ cases: Case[] }>("urls.json").cases) {
    it(c.name, async () => {
      const shown: string[] = [];
      const w = world(() => ({ status: 403 }), () => 200, { beforePayment: (info) => shown.push(info.url) > 0 });
      const error = await failure(w.fetch(c.url));
      assert.equal(error.code, "request-refused");
      assert.equal(error.url, c.shown);
      assert.deepEqual(w.pays.map((p) => p["requestUrl"]), [c.requestUrl]);
      assert.deepEqual(shown, [c.requestUrl]);
    });
  }
});
