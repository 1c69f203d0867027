// What a program, and a person who reads its log, learns of an error; and finding it behind what an SDK makes of it.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import { type Fetch, isPurserError, type PaymentOptions, PurserError, purserErrorOf, wrapFetch } from "purserpay";
import { payWithAxios } from "purserpay/axios";
import axios, { type AxiosError } from "axios";
import { apiKey, challenge, cut, deliver, discreet, failure, fakePurser, type Handler, json, paymentId, quick, seller } from "./fake.js";

const declines: Handler = (_req, res) => json(res, 402, { error: "Payment refused by policy", rule: "daily", detail: "0.01 USDC would pass the budget" });

describe("errors", { concurrency: true }, () => {
  it("name payment, amount and host, each once", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, cut);
    const { host } = new URL(shop.url);
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, resends: 0 })(`${shop.url}/a?secret`));
    const known = `(payment ${paymentId}, 0.01 USDC, ${host})`;
    assert.equal(error.message, `The seller's answer to the paid request was lost. ${known}`);
    assert(error.stack?.startsWith(`UnclearError: ${error.message}\n`) && inspect(error).includes(known));
    assert.deepEqual([error.amount, error.host, error.paymentId], ["10000", host, paymentId]);
    const no = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url, allowHosts: ["x.example"] })(shop.url));
    assert.equal(no.message, `${host} is not in allowHosts. (0.01 USDC)`);
    await discreet(error);
  });

  it("say whether to repeat, and whether money may have moved", async (t) => {
    const unreachable = { purserFetch: () => Promise.reject(new Error("away")) };
    const limited = (headers = {}) => ({ purserFetch: () => Promise.resolve(new Response("{}", { status: 429, headers })) });
    const signs = await fakePurser(t);
    const shop = await seller(t, cut);
    const again = await seller(t, (_req, res) => json(res, 402, {}, { "PAYMENT-REQUIRED": challenge() }));
    const cases: [string, string, Partial<PaymentOptions>, boolean, boolean][] = [
      ["unclear", shop.url, { resends: 0 }, true, true],
      ["rejected", again.url, {}, false, true],
      ["purser-unreachable", shop.url, unreachable, true, false],
      ["unclear", shop.url, { ...unreachable, settlement: "payer" }, true, true],
      ["limit-reached", shop.url, limited(), false, false],
      ["limit-reached", shop.url, limited({ "Retry-After": "60" }), true, false],
      ["refused-by-caller", shop.url, { maxAmount: 1n }, false, false],
    ];
    for (const [code, url, options, retryable, moved] of cases) {
      const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: signs.url, ...quick, ...options })(url));
      assert.deepEqual([error.code, error.retryable, error.moneyMayHaveMoved], [code, retryable, moved]);
    }
  });

  it("know of a payment that an earlier request left, and of one that purser has settled", async (t) => {
    const purser = await fakePurser(t, (_req, res, _body, n) => (n === 1 ? undefined : res.writeHead(429).end("{}")));
    const shop = await seller(t);
    const paying = wrapFetch(fetch, { apiKey, baseUrl: purser.url, ...quick, payTimeout: 300, settlement: "payer" });
    const first = await failure(paying(shop.url));
    assert.deepEqual([first.code, first.moneyMayHaveMoved], ["unclear", true]);
    const second = await failure(paying(shop.url));
    assert.deepEqual([second.code, second.moneyMayHaveMoved], ["limit-reached", true]);
    const signed = await fakePurser(t);
    const other = await seller(t, deliver, "5"); // the fake signs what is asked; another amount is the fault here
    const changed: Fetch = async (input, init) => {
      const answer = await fetch(input, init);
      if (!String(input).endsWith("/v1/pay")) return answer;
      const body = (await answer.json()) as { paymentSignature: string };
      const payload = Buffer.from(body.paymentSignature, "base64").toString().replace('"value":"5"', '"value":"6"');
      return Response.json({ ...body, paymentSignature: Buffer.from(payload).toString("base64") });
    };
    for (const settlement of ["payer", "seller"] as const) {
      const options = { apiKey, baseUrl: signed.url, purserFetch: changed, maxAmount: 9n, settlement };
      const error = await failure(wrapFetch(fetch, options)(other.url));
      assert.deepEqual([error.rule, error.amount, error.moneyMayHaveMoved], ["signed-terms", "6", settlement === "payer"]);
    }
  });

  it("go to other processes and into logs, as far as the language lets them", async (t) => {
    const purser = await fakePurser(t, declines);
    const shop = await seller(t);
    const error = await failure(wrapFetch(fetch, { apiKey, baseUrl: purser.url })(shop.url));
    const told = JSON.parse(JSON.stringify(error)) as Record<string, unknown>;
    const { name, message, code, rule, retryable, moneyMayHaveMoved, idempotencyKey, host } = error;
    assert.deepEqual(
      { ...told },
      { ...told, name, message, code, rule, retryable, moneyMayHaveMoved, idempotencyKey, host, amount: "10000", detail: error.detail },
    );
    assert(name === "DeclinedError" && message.includes("would pass the budget") && !("response" in told));
    assert.equal(structuredClone(error).message, message);
    assert.deepEqual(structuredClone((error as unknown as PurserError).toJSON())["code"], "declined");
  });

  it("are found behind others", () => {
    const error = new PurserError("declined", "no");
    const wrapped = [
      new Error("outer", { cause: new Error("inner", { cause: error }) }),
      new AggregateError([new Error("x"), error]),
      Object.assign(new Error("retry"), { lastError: error }),
      Object.assign(new Error("http"), { response: { cause: error } }),
    ];
    for (const one of [error, ...wrapped]) assert.equal(purserErrorOf(one), error);
    const loop = new Error("loop");
    loop.cause = loop;
    for (const none of [loop, "text", null, undefined, {}]) assert.equal(purserErrorOf(none), undefined);
  });
});

describe("return402", { concurrency: true }, () => {
  it("hands a 402 to the program, with the reason, that no SDK repeats", async (t) => {
    const purser = await fakePurser(t, declines);
    const shop = await seller(t);
    const paying = wrapFetch(fetch, { apiKey, baseUrl: purser.url, return402: true });
    const answer = await paying(shop.url);
    assert.deepEqual([answer.status, answer.headers.get("x-should-retry"), answer.headers.get("Purser-Error")], [402, "false", "declined"]);
    const error = purserErrorOf(answer);
    assert(error?.code === "declined" && error.response instanceof Response);
    assert.equal(purserErrorOf({ response: answer }), error);
    assert.equal(purserErrorOf({ headers: answer.headers }), error);
    assert.deepEqual(await answer.json(), { error: { message: error.message, type: "purser_error", code: "declined", param: null } });
    assert.equal((await failure(paying(shop.url, { signal: AbortSignal.abort() }))).name, "AbortError");
    const twice = await wrapFetch(paying, { apiKey, baseUrl: purser.url })(shop.url);
    assert.equal(twice.headers.get("Purser-Error"), "declined", "another wrapper leaves it alone");
  });

  it("with axios, where the program takes a 402", async (t) => {
    const purser = await fakePurser(t, declines);
    const shop = await seller(t);
    const http = axios.create({ proxy: false });
    payWithAxios(http, { apiKey, baseUrl: purser.url, return402: true });
    const answer = await http.get<{ error: { code: string } }>(shop.url, { validateStatus: () => true });
    assert.deepEqual([answer.status, answer.data.error.code], [402, "declined"]);
    assert.equal(purserErrorOf(answer)?.code, "declined");
    const error = await http.get(shop.url).catch((error: unknown) => error as AxiosError);
    assert(isPurserError(error) && error.code === "declined");
  });
});
