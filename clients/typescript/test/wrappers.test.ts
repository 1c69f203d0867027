// got and undici.request. What they share with fetch is tested there.
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import { fromEnv, isPurserError, paymentOf, type PaymentOptions, purserErrorOf, type UnclearError } from "purserpay";
import { wrap as wrapAxios } from "purserpay/axios";
import { wrap as wrapGot } from "purserpay/got";
import { wrap as wrapUndici } from "purserpay/undici";
import axios from "axios";
import got, { HTTPError, type RequestError, type Response as GotResponse } from "got";
import { Agent, interceptors, request } from "undici";
import { apiKey, challenge, challengeV1, cut, deliver, failure, type FakePurser, fakePurser, json, paid, paymentId, paymentsOf, quick, receipt, seller, serve } from "./fake.js";

const options = (purser: FakePurser, more: Partial<PaymentOptions> = {}) => ({ apiKey, baseUrl: purser.url, ...quick, ...more });
const declines = (t: Parameters<typeof fakePurser>[0]) =>
  fakePurser(t, (_req, res) => json(res, 402, { error: "Payment refused by policy", rule: "daily" }));

describe("got", { concurrency: true }, () => {
  it("pays, whatever the method, the body and the type of the answer", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    let requests = 0;
    const http = wrapGot(got.extend({ hooks: { beforeRequest: [() => { requests++; }] } }), options(purser));
    const answer = await http.post(shop.url, { json: { a: 1 }, headers: { "X-Mine": "yes" }, responseType: "json" });
    assert.deepEqual(answer.body, { report: "sunny", body: '{"a":1}' });
    assert.equal(paymentOf(answer)?.id, paymentId);
    assert.deepEqual(await http.get(`${shop.url}/a`).json(), { report: "sunny", body: "" });
    assert.match(await http.put(shop.url, { form: { b: "c" }, resolveBodyOnly: true }), /b=c/);
    assert.match((await http.get(shop.url).buffer()).toString(), /sunny/);
    assert(shop.got.slice(0, 2).every((g) => g.headers["x-mine"] === "yes" && g.headers["content-type"] === "application/json"));
    assert.equal(purser.pays.length, 4);
    assert.equal(requests, 8);
    assert(!inspect(answer.request.options.headers).toLowerCase().includes("payment-signature"));
  });

  it("pays sellers of version 1, heeds what one request says, and leaves other 402s alone", async (t) => {
    const purser = await fakePurser(t);
    const old = await serve(t, (req, res) => {
      if (paid(req)) return json(res, 200, { a: 1 }, { "X-PAYMENT-RESPONSE": receipt });
      return res.writeHead(402).end(challengeV1());
    });
    const http = wrapGot(got, options(purser));
    assert.deepEqual(await http.get(old.url).json(), { a: 1 });
    const error = (await failure(http.get(old.url, { context: { purser: { maxAmount: 5n } } }))) as unknown as RequestError;
    assert.equal(purserErrorOf(error)?.code, "refused-by-caller");
    assert.match(error.message, /maxAmount is 5/);
    const other = await serve(t, (_req, res) => json(res, 402, { plan: "gold" }));
    const refused = await failure(http.get(other.url));
    assert(refused instanceof HTTPError && (refused.response as GotResponse<string>).body === '{"plan":"gold"}');
    assert.equal(purser.pays.length, 1);
  });

  it("a lost answer is unclear, has no payment in what is printed, and is resumed", async (t) => {
    let lost = true;
    const purser = await fakePurser(t);
    const shop = await seller(t, (req, res, body, n) => (lost ? cut(req, res, body, n) : deliver(req, res, body, n)));
    const thrown = await failure(wrapGot(got, options(purser, { resends: 0 })).get(shop.url));
    const error = purserErrorOf(thrown);
    assert(error?.code === "unclear", inspect(thrown));
    assert.equal(purserErrorOf({ response: (thrown as unknown as RequestError).response }), error);
    const payment = paymentsOf(shop)[0] ?? "";
    assert(!inspect(error, { depth: 12 }).includes(payment.slice(0, 60)));
    lost = false;
    const answer = (await (error as unknown as UnclearError<GotResponse<string>>).resume());
    assert.deepEqual([answer.statusCode, new Set(paymentsOf(shop)).size], [200, 1]);
    assert.equal(paymentOf(answer)?.id, paymentId);
  });

  it("with return402, and a body beyond the limit", async (t) => {
    const purser = await declines(t);
    const shop = await seller(t);
    const http = wrapGot(got.extend({ throwHttpErrors: false }), options(purser, { return402: true }));
    for (const responseType of ["json", "text", "buffer"] as const) {
      const answer: GotResponse = await http.get(shop.url, { responseType } as object);
      assert.equal(answer.statusCode, 402);
      assert.match(inspect(answer.body), responseType === "buffer" ? /Buffer/ : /purser_error/);
      const error = purserErrorOf(answer);
      assert(error?.code === "declined");
    }
    const short = wrapGot(got.extend({ throwHttpErrors: false }), options(purser, { return402: true, bodyLimit: 4 }));
    const streamed = await short.post(shop.url, { body: Readable.from([Buffer.from("012"), Buffer.from("345")]) });
    assert.equal(purserErrorOf(streamed)?.code, "not-replayable");
    assert.equal(shop.got.at(-1)?.body, "012345");
    const http402 = wrapGot(got, options(purser, { return402: true }));
    const error = await failure(http402.get(shop.url));
    assert(error instanceof HTTPError && purserErrorOf(error)?.code === "declined");
  });

  it("a redirect of a paid answer is followed without the payment, and a cancelled request does not pay", async (t) => {
    const purser = await fakePurser(t);
    const end = await serve(t, (_req, res) => res.end("end"));
    const shop = await seller(t, (_req, res) => res.writeHead(302, { Location: end.url }).end());
    assert.equal(await wrapGot(got, options(purser)).get(shop.url).text(), "end");
    assert(!end.got.some(paid));
    const { promise: asked, resolve } = withResolvers();
    const held = await fakePurser(t, () => resolve());
    const goods = await seller(t);
    const work = wrapGot(got, options(held)).get(goods.url);
    await asked;
    work.cancel();
    await assert.rejects(work, { name: "CancelError" });
    assert.equal(paymentsOf(goods).length, 0);
  });

  it("a stream of an answer is not paid for, and says so", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const old = await serve(t, (_req, res) => res.writeHead(402).end(challengeV1()));
    const broken = await serve(t, (_req, res) => res.writeHead(402, { "PAYMENT-REQUIRED": "?" }).end());
    const http = wrapGot(got, options(purser));
    for (const { url } of [shop, old, broken]) {
      const error = await failure(http.stream(`${url}/a?secret`).toArray());
      assert.match(error.message, /got\.stream is not paid for/);
      const cause = purserErrorOf(error);
      assert(cause?.code === "not-replayable" && !cause.moneyMayHaveMoved);
      assert.equal(cause.url, `${url}/a`);
    }
    const other = await serve(t, (_req, res) => json(res, 402, { plan: "gold" }));
    assert.match((await failure(http.stream(other.url).toArray())).message, /402 \(Payment Required\)/);
    const declined = await serve(t, (_req, res) => json(res, 402, {}, { "Purser-Declined": "daily", "PAYMENT-REQUIRED": challenge() }));
    assert.match((await failure(http.stream(declined.url).toArray())).message, /402 \(Payment Required\)/);
    const goods = await serve(t, (_req, res, body) => res.end(`goods ${body}`));
    const upload = http.stream.post(goods.url);
    upload.end("upload");
    assert.equal(String(Buffer.concat(await upload.toArray())), "goods upload");
    assert.equal(purser.pays.length, 0);
  });

  it("a seller that leads each repeat elsewhere is not paid twice", async (t) => {
    const purser = await fakePurser(t);
    let led = 0;
    const shop = await serve(t, (req, res, body, n) => {
      if (paid(req)) return cut(req, res, body, n);
      if (req.url === "/") return res.writeHead(302, { Location: `/${++led}` }).end();
      return json(res, 402, {}, { "PAYMENT-REQUIRED": challenge() });
    });
    const http = wrapGot(got, options(purser, { resends: 0 }));
    for (let n = 0; n < 2; n++) assert.equal(purserErrorOf(await failure(http.get(shop.url)))?.code, "unclear");
    assert.equal(led, 2);
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 1);
  });

  for (const how of ["signal", "timeout", "cancel"] as const) {
    it(`given up by ${how} after the payment had left is unclear, and a repeat is the same payment`, async (t) => {
      const purser = await fakePurser(t);
      const controller = new AbortController();
      let giveUp = () => {
        controller.abort(how === "timeout" ? new DOMException("late", "TimeoutError") : undefined);
      };
      const shop = await seller(t, (req, res, body, n) => (n === 1 ? giveUp() : deliver(req, res, body, n)));
      const http = wrapGot(got.extend({ retry: { limit: 0 } }), options(purser));
      const signal = how === "cancel" ? undefined : controller.signal;
      const work = http.get(shop.url, signal && { signal });
      if (how === "cancel") giveUp = () => work.cancel();
      const error = await failure(work);
      assert(error.name === "UnclearError" && error.paymentId === paymentId, inspect(error));
      assert.equal(work.isCanceled, how === "cancel");
      assert.match((await http.get(shop.url)).body, /sunny/);
      assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 1);
    });
  }

  it("an answer that was paid for arrives, though the program gave up meanwhile", async (t) => {
    const controller = new AbortController();
    const purser = await fakePurser(t, undefined, (_req, res) => {
      controller.abort();
      setImmediate(() => json(res, 200, {}));
    });
    const shop = await seller(t);
    const http = wrapGot(got, options(purser));
    const { signal } = controller;
    assert.match((await http.get(shop.url, { signal })).body, /sunny/);
    assert.equal(purser.pays.length, 1);
  });

  it("heeds a signal", async (t) => {
    const controller = new AbortController();
    const purser = await fakePurser(t, () => controller.abort());
    const shop = await seller(t);
    await assert.rejects(wrapGot(got, options(purser)).get(shop.url, { signal: controller.signal }), { name: "AbortError" });
    assert.equal(paymentsOf(shop).length, 0);
  });
});

describe("undici.request", { concurrency: true }, () => {
  it("pays, whatever the forms of headers and body", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const paying = wrapUndici(request, options(purser));
    const forms = [{ "X-Mine": "yes", "X-List": ["a", "b"] }, ["X-Mine", "yes"], new Headers({ "X-Mine": "yes" })];
    for (const headers of forms) {
      const answer = await paying(shop.url, { method: "POST", headers, body: Readable.from([Buffer.from("text")]), query: { q: ["1", "2"] } });
      assert.deepEqual(await answer.body.json(), { report: "sunny", body: "text" });
      assert.equal(paymentOf(answer)?.id, paymentId);
    }
    assert.equal((await paying(`${shop.url}/a`)).statusCode, 200);
    assert(shop.got.slice(0, 6).every((g) => g.headers["x-mine"] === "yes" && g.url === "/?q=1&q=2" && g.body === "text"));
    assert.equal(purser.pays[0]?.requestUrl, `${shop.url}/?q=1&q=2`);
    assert.equal(purser.pays.length, 4);
  });

  it("pays sellers of version 1, and leaves other 402s alone", async (t) => {
    const purser = await fakePurser(t);
    const old = await serve(t, (req, res) => {
      if (paid(req)) return json(res, 200, {}, { "X-PAYMENT-RESPONSE": receipt });
      return res.writeHead(402).end(challengeV1());
    });
    const paying = wrapUndici(request, options(purser));
    assert.equal((await paying(old.url)).statusCode, 200);
    const other = await serve(t, (_req, res) => json(res, 402, { plan: "gold" }));
    assert.deepEqual(await (await paying(other.url)).body.json(), { plan: "gold" });
    let text = "";
    for await (const piece of (await paying(other.url)).body) text += String(piece);
    assert.equal(text, '{"plan":"gold"}');
    await (await paying(other.url)).body.dump();
  });

  it("a lost answer is unclear, and resumed", async (t) => {
    let lost = true;
    const purser = await fakePurser(t);
    const shop = await seller(t, (req, res, body, n) => (lost ? cut(req, res, body, n) : deliver(req, res, body, n)));
    const error = await failure(wrapUndici(request, options(purser, { resends: 0 }))(shop.url));
    assert(isPurserError(error) && error.code === "unclear", inspect(error));
    lost = false;
    const answer = (await error.resume()) as unknown as Awaited<ReturnType<typeof request>>;
    assert.match(await answer.body.text(), /sunny/);
    assert.equal(new Set(paymentsOf(shop)).size, 1);
  });

  it("with return402 and terms of one request; errors hold its own answer", async (t) => {
    const purser = await declines(t);
    const shop = await seller(t);
    const answer = await wrapUndici(request, options(purser, { return402: true }))(shop.url);
    assert.deepEqual([answer.statusCode, answer.headers["purser-error"]], [402, "declined"]);
    assert.match(await answer.body.text(), /purser_error/);
    assert.equal(purserErrorOf(answer)?.code, "declined");
    const how = { purser: { maxAmount: "0.001 USDC" } } as object;
    const error = await failure(wrapUndici(request, options(purser))(shop.url, how));
    assert.equal(error.code, "refused-by-caller");
    assert.equal((error.response as { statusCode: number }).statusCode, 402);
  });

  it("heeds an emitter as a signal", async (t) => {
    const purser = await fakePurser(t);
    const signal = new EventEmitter();
    const shop = await seller(t, (_req, res) => signal.emit("abort") && res.end("late"));
    const error = await failure(wrapUndici(request, options(purser))(shop.url, { signal }));
    assert.equal(error.code, "unclear");
    const early = new EventEmitter();
    const slow = await serve(t, () => early.emit("abort"));
    assert.equal((await failure(wrapUndici(request, options(purser))(slow.url, { signal: early }))).name, "AbortError");
    assert.equal(purser.pays.length, 1);
  });

  it("an interceptor that follows does not take the payment along", async (t) => {
    const purser = await fakePurser(t);
    const end = await serve(t, (_req, res) => res.end("end"));
    const shop = await seller(t, (_req, res) => res.writeHead(302, { Location: end.url }).end());
    const door = await serve(t, (_req, res) => res.writeHead(302, { Location: shop.url }).end());
    const dispatcher = new Agent().compose(interceptors.redirect({ maxRedirections: 3 }));
    t.after(() => dispatcher.close());
    const answer = await wrapUndici(request, options(purser))(door.url, { dispatcher });
    assert.equal(answer.statusCode, 302);
    assert.deepEqual([end.got.length, purser.pays[0]?.requestUrl], [0, `${shop.url}/`]);
    await answer.body.dump();
  });
});

describe("options of the environment", () => {
  it("are taken, and what is given comes first", (t) => {
    const set = { PURSER_KEY: "pk", PURSER_URL: "http://p", PURSER_MAX_AMOUNT: "5", PURSER_ALLOW_HOSTS: "a.example, *.b", PURSER_TASK: "t" };
    const before = { ...process.env };
    t.after(() => {
      process.env = before;
    });
    process.env = { ...before, ...set };
    const read = { apiKey: "pk", baseUrl: "http://p", maxAmount: "5", allowHosts: ["a.example", "*.b"], task: "t" };
    assert.deepEqual(fromEnv(), read);
    assert.deepEqual(fromEnv({ task: "u", resends: 0 }), { ...read, task: "u", resends: 0 });
    process.env = before;
    assert.throws(() => fromEnv(), /PURSER_KEY is not set/);
    assert.throws(() => fromEnv({ apiKey: "pk" }), /PURSER_URL is not set/);
  });

  it("an axios instance is wrapped once, and its requests say what they may cost", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const http = axios.create({ proxy: false });
    assert.equal(wrapAxios(http, options(purser)), http);
    assert.throws(() => wrapAxios(http, options(purser)), /pays already/);
    assert.equal((await http.get(shop.url)).status, 200);
    const how = { purser: { maxAmount: 5n } } as object;
    assert.equal((await failure(http.get(shop.url, how))).code, "refused-by-caller");
  });
});

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((r) => (resolve = r));
  return { promise, resolve };
}
