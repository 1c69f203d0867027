// purser and a paid seller for the tests of a program, without network and without money. They work in any test runner.
import { encodeBase64 } from "./base64.js";
import { carriesPayment, headerChallenge, isObject, text } from "./challenge.js";
import { cap, type Fetch, type Settlement, usdc } from "./options.js";

/** A payment that a test's purser has made. */
export interface TestPayment {
  readonly id: string;
  readonly url: string;
  /** In the smallest unit; `usdc` writes it as USDC. */
  readonly amount: string;
  readonly payTo: string;
  readonly idempotencyKey: string;
  readonly settlement: Settlement;
  readonly task: string | undefined;
  /** The receipt that was reported for it. */
  receipt: string | undefined;
}

/** A purser that pays for everything, once for each idempotency key. */
export interface TestPurser {
  /** For `wrapFetch`, `createClient` and `wrap`, beside a program's own options. */
  readonly options: { readonly apiKey: string; readonly baseUrl: string; readonly purserFetch: Fetch };
  /** The payments, in their order. */
  readonly payments: readonly TestPayment[];
  /** From now on it refuses, as its policy does. */
  decline(why?: { rule?: string; detail?: string }): void;
  /** From now on it pays again. */
  allow(): void;
  /** The next answers to `/v1/pay` are lost, once they are paid. */
  loseAnswers(count: number): void;
}

/** A seller's fetch, for `wrapFetch(seller, …)`. */
export type TestSeller = Fetch & {
  /** The requests that it has seen, unpaid ones too. */
  readonly requests: readonly Request[];
  /** The next answers to paid requests are lost, once it has taken the payment. */
  loseAnswers(count: number): void;
};

const usdcOfBase = "0x833589fCD6eDb6E08f4c7C32D4f71b54bda02913";
const json = (status: number, body: unknown) => Response.json(body, { status });

/** Makes a purser. */
export function testPurser(): TestPurser {
  const payments: TestPayment[] = [];
  let refusal: { rule?: string; detail?: string } | undefined;
  let lost = 0;

  const pay = (order: Record<string, unknown>, quoted: boolean): Response => {
    const asked = text(order["paymentRequiredHeader"]);
    const challenge = headerChallenge(() => asked, []);
    const offer = challenge?.offers[0];
    if (!challenge || !offer) return json(400, { error: "Unsupported payment challenge" });
    if (refusal) return json(402, { error: "Payment refused by policy", ...refusal });
    const { amount, payTo, network, asset } = offer;
    if (quoted) {
      const price = `${usdc(amount)} USDC`;
      return json(200, { amount, price, currency: "USDC", network, asset, payTo, protocol: "x402", rail: "eip3009" });
    }
    const idempotencyKey = text(order["idempotencyKey"]);
    const url = text(order["requestUrl"]);
    let payment = payments.find((known) => known.idempotencyKey === idempotencyKey);
    if (payment && (payment.url !== url || payment.amount !== amount || payment.payTo !== payTo)) {
      return json(400, { error: "idempotencyKey already used for a different request" });
    }
    if (!payment) {
      const id = `test-${payments.length + 1}`;
      const settlement = order["settlement"] === "payer" ? "payer" : "seller";
      const task = text(order["task"]) || undefined;
      payment = { id, url, amount, payTo, idempotencyKey, settlement, task, receipt: undefined };
      payments.push(payment);
    }
    if (lost > 0) {
      lost--;
      throw new TypeError("the answer of the test's purser is lost");
    }
    const authorization = { from: "0x", to: payTo, value: amount, nonce: payment.id };
    const payload = { x402Version: challenge.version, payload: { signature: "0x", authorization } };
    return json(200, {
      paymentSignature: encodeBase64(new TextEncoder().encode(JSON.stringify(payload))),
      paymentHeader: challenge.version === 1 ? "X-PAYMENT" : "PAYMENT-SIGNATURE",
      settled: payment.settlement === "payer",
      transaction: "",
      payment: { id: payment.id, state: "open", flags: [], validBefore: new Date(Date.now() + 60_000).toISOString() },
    });
  };

  const purserFetch: Fetch = async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input);
    const given: unknown = await new Response(init?.body ?? "{}").json();
    const body = isObject(given) ? given : {};
    if (pathname === "/v1/pay" || pathname === "/v1/quote") return pay(body, pathname === "/v1/quote");
    const payment = payments.find(({ id }) => pathname === `/v1/payments/${id}/receipt`);
    if (!payment) return json(404, { error: "Not found" });
    payment.receipt = text(body["receipt"]);
    return json(200, { payment: { id: payment.id, state: "settled", transaction: `0x${payment.id}` } });
  };

  return {
    options: { apiKey: "test", baseUrl: "http://purser.test", purserFetch },
    payments,
    decline: (why = {}) => {
      refusal = why;
    },
    allow: () => {
      refusal = undefined;
    },
    loseAnswers: (count) => {
      lost = count;
    },
  };
}

/** Makes a seller, which asks for `amount` (`"0.01 USDC"`), and then answers paid requests by `answer`. */
export function testSeller(
  answer: (request: Request) => Response | Promise<Response>,
  { amount = "0.01 USDC", payTo = `0x${"1".repeat(40)}` }: { amount?: string | bigint; payTo?: string } = {},
): TestSeller {
  const requests: Request[] = [];
  const sold = new Map<string, Response>(); // the same payment gets the same answer
  let lost = 0;
  const entry = { scheme: "exact", network: "eip155:8453", amount: cap(amount).toString(), asset: usdcOfBase, payTo };
  const challenge = JSON.stringify({ x402Version: 2, error: "Payment required", accepts: [entry] });
  const fetch: Fetch = async (input, init) => {
    const request = new Request(input, init);
    requests.push(request.clone());
    if (!carriesPayment((name) => request.headers.get(name))) {
      const headers = { "PAYMENT-REQUIRED": encodeBase64(new TextEncoder().encode(challenge)) };
      return Response.json({}, { status: 402, headers });
    }
    const payment = request.headers.get("PAYMENT-SIGNATURE") ?? "";
    const goods = sold.get(payment) ?? (await answer(request));
    sold.set(payment, goods.clone());
    if (lost > 0) {
      lost--;
      throw new TypeError("the answer of the test's seller is lost");
    }
    return goods;
  };
  const loseAnswers = (count: number) => {
    lost = count;
  };
  return Object.assign(fetch, { requests, loseAnswers });
}
