// The axios interceptor. What both doors share is tested with fetch.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PassThrough, Readable } from "node:stream";
import { isPurserError, paymentOf, type RejectedError, type UnclearError } from "purserpay";
import { payWithAxios } from "purserpay/axios";
import axios, { AxiosError, type AxiosInstance, type CreateAxiosDefaults } from "axios";
import {
  apiKey,
  challenge,
  challengeV1,
  cut,
  deliver,
  discreet,
  failure,
  type FakePurser,
  fakePurser,
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

function paying(purser: FakePurser, defaults: CreateAxiosDefaults = {}, options = {}): AxiosInstance {
  const instance = axios.create({ proxy: false, ...defaults });
  payWithAxios(instance, { apiKey, baseUrl: purser.url, ...quick, ...options });
  return instance;
}

describe("axios", { concurrency: true }, () => {
  for (const adapter of ["http", "fetch"] as const) {
    it(`pays with the adapter ${adapter}; transforms and interceptors run once`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t);
      const calls: string[] = [];
      const http = axios.create({ proxy: false, adapter, baseURL: shop.url, auth: { username: "u", password: "p" } });
      http.interceptors.request.use((c) => (calls.push("request"), c));
      payWithAxios(http, { apiKey, baseUrl: purser.url, ...quick });
      http.interceptors.request.use((c) => (calls.push("later"), c));
      http.interceptors.response.use((r) => (calls.push("response"), r));
      const answer = await http.post<{ report: string; body: string }>("/a", { x: 1 }, { params: { q: "é" } });
      assert.equal(answer.status, 200);
      assert.deepEqual(answer.data, { report: "sunny", body: '{"x":1}' });
      assert.deepEqual(calls, ["later", "request", "response"]);
      assert(shop.got.every((g) => g.url === "/a?q=%C3%A9" && g.body === '{"x":1}' && g.headers["content-type"] === "application/json"));
      assert(shop.got.every((g) => g.headers.authorization === "Basic dTpw" && g.headers["x-api-key"] === undefined));
      assert.equal(paymentsOf(shop).length, 1);
      assert.equal(purser.pays[0]?.requestUrl, `${shop.url}/a?q=%C3%A9`);
      assert.equal(purser.receipts.length, 1);
      assert.equal(paymentOf(answer)?.id, paymentId);
      assert(!JSON.stringify(answer.config.headers).toLowerCase().includes("payment-signature"));
    });

    it(`follows a redirect of a paid answer without the payment, adapter ${adapter}`, async (t) => {
      const purser = await fakePurser(t);
      const other = await serve(t, (_req, res) => res.end("other"));
      const shop = await seller(t, (_req, res) => res.writeHead(302, { Location: other.url, "PAYMENT-RESPONSE": receipt }).end());
      const http = paying(purser, { adapter });
      const answer = await http.post(shop.url, "body", { headers: { Authorization: "Bearer x", "X-Mine": "yes" } });
      assert.equal(answer.data, "other");
      const got = other.got[0];
      assert(got && !paid(got));
      assert.deepEqual([got.method, got.body, got.headers.authorization, got.headers["x-mine"]], ["GET", "", undefined, "yes"]);
      assert.equal(purser.receipts.length, 1);
    });

    it(`does not pay for a POST that was redirected, adapter ${adapter}`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t);
      const door = await serve(t, (_req, res) => res.writeHead(307, { Location: shop.url }).end());
      const error = await failure(paying(purser, { adapter }).post(door.url, "x"));
      assert(error.code === "not-replayable" || (error as unknown as AxiosError).response?.status === 307, String(error));
      assert.equal(purser.pays.length, 0);
    });
  }

  it("pays where a redirected GET has arrived, without credentials of another origin", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const door = await serve(t, (_req, res) => res.writeHead(302, { Location: `${shop.url}/goods` }).end());
    const http = paying(purser, { auth: { username: "u", password: "p" } });
    assert.equal((await http.get(door.url, { params: { a: 1 } })).status, 200);
    assert.equal(door.got.length, 1);
    const sent = shop.got[1];
    assert(sent && paid(sent));
    assert.equal(sent.url, "/goods");
    assert.equal(sent.headers.authorization, undefined);
  });

  for (const responseType of ["json", "text", "arraybuffer", "blob", "stream"] as const) {
    it(`pays sellers of version 1, responseType ${responseType}`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await serve(t, (req, res) => {
        if (paid(req)) return json(res, 200, { a: 1 }, { "X-PAYMENT-RESPONSE": receipt });
        return res.writeHead(402).end(challengeV1());
      });
      const adapter = responseType === "blob" ? "fetch" : "http";
      const http = paying(purser, { adapter, responseType, validateStatus: () => true });
      const answer = await http.get(shop.url);
      assert.equal(answer.status, responseType === "stream" ? 402 : 200); // its body stays the program's
      if (responseType === "stream") (answer.data as Readable).destroy();
    });
  }

  it("pays for streams by header", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    for (const adapter of ["http", "fetch"]) {
      const answer = await paying(purser, { responseType: "stream", adapter }).get<AsyncIterable<Uint8Array>>(shop.url);
      let text = "";
      for await (const chunk of answer.data) text += Buffer.from(chunk).toString();
      assert.match(text, /sunny/);
    }
  });

  it("leaves everything else as axios makes it", async (t) => {
    const purser = await fakePurser(t);
    const shop = await serve(t, (req, res) => json(res, req.url === "/402" ? 402 : 404, { plan: "gold" }));
    const http = paying(purser);
    for (const path of ["/402", "/404"]) {
      const error = (await failure(http.get(shop.url + path))) as unknown as AxiosError;
      assert(axios.isAxiosError(error));
      assert.deepEqual(error.response?.data, { plan: "gold" });
      assert.equal(error.config?.url, shop.url + path);
    }
    assert.equal((await http.get(`${shop.url}/402`, { validateStatus: null })).status, 402);
    const mine = (await failure(http.get(`${shop.url}/402`, { headers: { "X-PAYMENT": "mine" } }))) as unknown as AxiosError;
    assert.equal(mine.response?.status, 402);
    assert.equal(purser.pays.length, 0);
  });

  it("keeps to validateStatus after paying", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) => json(res, 404, { a: 1 }));
    const error = (await failure(paying(purser).get(shop.url))) as unknown as AxiosError;
    assert.equal(error.response?.status, 404);
    assert.deepEqual(error.response.data, { a: 1 });
    assert.equal(paymentOf(error.response)?.id, paymentId);
    await discreet({ ...error, request: undefined, response: undefined });
    assert.equal((await paying(purser).get(shop.url, { validateStatus: null })).status, 404);
  });

  it("sends the same payment again, and remembers it", async (t) => {
    const purser = await fakePurser(t);
    let broken = true;
    const shop = await seller(t, (req, res, body, n) => (broken ? cut(req, res, body, n) : deliver(req, res, body, n)));
    const http = paying(purser);
    const error = (await failure(http.post(shop.url, { a: 1 }))) as unknown as UnclearError;
    assert.equal(error.code, "unclear");
    await discreet(error);
    broken = false;
    assert.equal((await http.post(shop.url, { a: 1 })).status, 200);
    assert.equal(new Set(paymentsOf(shop)).size, 1);
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 1);
    assert.equal(((await error.resume()) as { status: number }).status, 200);
  });

  it("never pays a second 402", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, (_req, res) => json(res, 402, {}, { "PAYMENT-REQUIRED": challenge("1", "no match") }));
    const error = (await failure(paying(purser).get(shop.url))) as unknown as RejectedError;
    assert.equal(error.code, "rejected");
    assert.equal(error.reason, "no match");
    assert.equal(purser.pays.length, 1);
    await discreet(error);
  });

  it("gives up as axios does before the payment, and says unclear after it", async (t) => {
    let abort: (() => void) | undefined;
    const slow = await fakePurser(t, () => abort?.());
    const purser = await fakePurser(t);
    const shop = await seller(t, () => abort?.());
    for (const way of ["signal", "token"]) {
      const controller = new AbortController();
      const token = axios.CancelToken.source();
      abort = () => {
        if (way === "signal") controller.abort();
        else token.cancel("enough");
      };
      const how = way === "signal" ? { signal: controller.signal } : { cancelToken: token.token };
      assert(axios.isCancel(await failure(paying(slow).get(shop.url, how))));
      assert.equal(paymentsOf(shop).length, 0);
      const twice = { ...how, cancelToken: way === "signal" ? undefined : token.token };
      assert(axios.isCancel(await failure(paying(purser).get(shop.url, twice))), "given up already");
    }
    const controller = new AbortController();
    const token = axios.CancelToken.source();
    abort = () => {
      controller.abort();
    };
    const error = await failure(paying(purser).get(shop.url, { signal: controller.signal, cancelToken: token.token }));
    assert.equal(error.code, "unclear");
    assert.equal(paymentsOf(shop).length, 1);
  });

  it("keeps streams up to the limit, and sends longer ones unpaid", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const http = paying(purser, {}, { bodyLimit: 8 });
    assert.equal((await http.post(shop.url, Readable.from([Buffer.from("short")]))).status, 200);
    assert.deepEqual(shop.got.map((g) => g.body), ["short", "short"]);
    const error = await failure(http.post(shop.url, Readable.from([Buffer.from("01234"), Buffer.from("56789"), Buffer.from("abc")])));
    assert.equal(error.code, "not-replayable");
    assert.equal(shop.got.at(-1)?.body, "0123456789abc");
    const old = new PassThrough();
    Object.defineProperty(old, Symbol.asyncIterator, { value: undefined }); // as streams of other packages are
    old.end("old");
    assert.equal((await failure(http.post(shop.url, old))).code, "not-replayable");
    assert.equal(shop.got.at(-1)?.body, "old");
    assert.equal(purser.pays.length, 1);
  });

  it("sends forms, bytes and blobs again", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const http = paying(purser);
    for (const body of [new URLSearchParams({ a: "b" }), Buffer.from("bytes"), new TextEncoder().encode("view")]) {
      assert.equal((await http.post(shop.url, body)).status, 200);
    }
    const form = new FormData();
    form.append("a", "b");
    assert.equal((await http.post(shop.url, form)).status, 200);
    assert.deepEqual(shop.got.slice(0, 6).map((g) => g.body), ["a=b", "a=b", "bytes", "bytes", "view", "view"]);
    assert(shop.got.slice(6).every((g) => g.body.includes('name="a"')));
  });

  it("refuses what cannot be read, with the answer", async (t) => {
    const purser = await fakePurser(t);
    const shop = await serve(t, (_req, res) => json(res, 402, {}, { "PAYMENT-REQUIRED": "%%%" }));
    const error = await failure(paying(purser).get(shop.url));
    assert.equal(error.code, "invalid-challenge");
    assert.equal((error.response as { status: number }).status, 402);
    assert(isPurserError(error));
  });

  it("can be taken off, and wants a key", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const http = axios.create({ proxy: false });
    const off = payWithAxios(http, { apiKey, baseUrl: purser.url });
    off();
    assert(axios.isAxiosError(await failure(http.get(shop.url))));
    assert.throws(() => payWithAxios(http, { apiKey: "", baseUrl: purser.url }), TypeError);
  });

  it("sends the configuration of an error again without paying twice at once", async (t) => {
    let busy = true;
    const purser = await fakePurser(t, (req, res, body, n) =>
      n === 1 ? grant(req, res, body, n) : json(res, 402, { error: "Payment refused by policy", rule: "host" }),
    );
    const shop = await seller(t, (req, res, body, n) => (busy ? res.writeHead(503).end() : deliver(req, res, body, n)));
    const http = paying(purser, {}, { resends: 0 });
    const error = (await failure(http.get(shop.url))) as unknown as AxiosError;
    assert.equal(error.response?.status, 503);
    busy = false;
    assert.equal((await failure(http.request(error.config ?? {}))).code, "declined");
    assert.equal(purser.pays.length, 2);
    assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 1);
  });

  it("a URL with user info was not redirected, and is not told to purser", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const answer = await paying(purser).post(shop.url.replace("http://", "http://me:hunter2@"), "x");
    assert.equal(answer.status, 200);
    assert(shop.got.every((g) => g.headers.authorization === `Basic ${Buffer.from("me:hunter2").toString("base64")}`));
    assert.equal(shop.got.length, 2);
    assert.deepEqual(purser.pays.map((p) => p.requestUrl), [`${shop.url}/`]);
  });

  it("leaves a 402 alone that a purser on the way has dealt with", async (t) => {
    const purser = await fakePurser(t);
    for (const adapter of ["http", "fetch"] as const) {
      const shop = await serve(t, (_req, res) => json(res, 402, {}, { "PAYMENT-REQUIRED": challenge(), "Purser-Declined": "policy" }));
      const error = (await failure(paying(purser, { adapter }).get(shop.url))) as unknown as AxiosError;
      assert.equal(error.response?.status, 402);
    }
    assert.equal(purser.pays.length, 0);
  });
});
