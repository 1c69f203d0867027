// purser and sellers of tests, real HTTP servers on loopback that note what they get.
import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import type { TestContext } from "node:test";

export const apiKey = "pk_test_secret_0123456789";
export const payTo = "0x1111111111111111111111111111111111111111";
export const paymentId = "019aa000-0000-7000-8000-000000000001";

const usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";

/** A vector file. */
export function vectors<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../testdata/${name}`, import.meta.url), "utf8")) as T;
}

export const b64 = (value: unknown) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64");

/** A challenge of version 2. */
export function challenge(amount = "10000", error = "Payment required"): string {
  const entry = { scheme: "exact", network: "eip155:8453", amount, asset: usdc, payTo, maxTimeoutSeconds: 60 };
  return b64({ x402Version: 2, error, resource: { url: "https://x/" }, accepts: [entry] });
}

/** The body of a 402 of version 1. */
export function challengeV1(amount = "10000", error = "X-PAYMENT header is required"): string {
  const entry = { scheme: "exact", network: "base", maxAmountRequired: amount, asset: usdc, payTo, maxTimeoutSeconds: 60 };
  return JSON.stringify({ x402Version: 1, error, accepts: [entry] });
}

/** What purser signs. */
export function signature(value = "10000", to = payTo, nonce = "0x00"): string {
  return b64({ x402Version: 2, payload: { signature: "0x00", authorization: { from: payTo, to, value, nonce } } });
}

/** A receipt of a seller. */
export const receipt = b64({ success: true, transaction: `0x${"ab".repeat(32)}`, network: "eip155:8453" });

/** A request that a server got. */
export interface Got {
  method: string;
  url: string;
  headers: http.IncomingHttpHeaders;
  body: string;
}

export type Handler = (req: http.IncomingMessage, res: http.ServerResponse, body: string, n: number) => unknown;

export interface Server {
  url: string;
  got: Got[];
  close(): Promise<void>;
}

/** A server until the end of the test. The handler's number counts requests from 1. */
export async function serve(t: TestContext, handler: Handler): Promise<Server> {
  const got: Got[] = [];
  const server = http.createServer((req, res) => {
    void (async () => {
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of req) chunks.push(chunk as Buffer);
      } catch {
        return; // the client has gone
      }
      const body = Buffer.concat(chunks).toString();
      got.push({ method: req.method ?? "", url: req.url ?? "", headers: req.headers, body });
      await handler(req, res, body, got.length);
    })();
  });
  server.keepAliveTimeout = 0; // a busy machine may leave a connection idle for longer than Node's 5 s
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => {
        resolve();
      });
      server.closeAllConnections();
    });
  t.after(close);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, got, close };
}

/**
 * A port that nobody listens on. It is below those that systems hand out, for port 0 and for outgoing connections, so that
 * nobody comes by it meanwhile.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 1000; tries++) {
    const port = randomInt(10_000, 32_768);
    const server = net.createServer();
    const free = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!free) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
  throw new Error("there are no free ports");
}

/** Cuts the connection. */
export const cut: Handler = (req) => req.socket.destroy();

export interface FakePurser extends Server {
  /** The bodies of /v1/pay. */
  pays: Record<string, string>[];
  receipts: { path: string; receipt: string }[];
}

/** A purser that hands out a payment for everything, one for each key, unless told otherwise. */
export async function fakePurser(t: TestContext, onPay?: Handler, onReceipt?: Handler): Promise<FakePurser> {
  const pays: Record<string, string>[] = [];
  const receipts: { path: string; receipt: string }[] = [];
  const server = await serve(t, (req, res, body, n) => {
    assert.equal(req.headers["x-api-key"], apiKey);
    if (req.url === "/v1/pay") {
      pays.push(JSON.parse(body) as Record<string, string>);
      return (onPay ?? grant)(req, res, body, pays.length);
    }
    if (req.url?.endsWith("/receipt")) {
      receipts.push({ path: req.url, ...(JSON.parse(body) as { receipt: string }) });
      if (onReceipt) return onReceipt(req, res, body, receipts.length);
      return json(res, 200, { payment: { id: paymentId, state: "settled", transaction: "0xab" } });
    }
    return json(res, 404, { error: `Not found ${n}` });
  });
  return Object.assign(server, { pays, receipts });
}

/** The answer of a purser that pays. The nonce is made of the key, so that one key has one payload. */
export const grant: Handler = (_req, res, body) => {
  const { idempotencyKey = "", paymentRequiredHeader = "" } = JSON.parse(body) as Record<string, string>;
  const asked = JSON.parse(Buffer.from(paymentRequiredHeader, "base64").toString()) as {
    x402Version: number;
    accepts: { amount?: string; maxAmountRequired?: string }[];
  };
  const entry = asked.accepts[0];
  json(res, 200, {
    paymentSignature: signature(entry?.amount ?? entry?.maxAmountRequired, payTo, b64(idempotencyKey)),
    settled: false,
    transaction: "",
    paymentHeader: asked.x402Version === 1 ? "X-PAYMENT" : "PAYMENT-SIGNATURE",
    payment: { id: paymentId, state: "open", flags: [], validBefore: "2026-11-22T10:00:00Z" },
  });
};

export function json(res: http.ServerResponse, status: number, body: unknown, headers: http.OutgoingHttpHeaders = {}): void {
  res.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** Whether a request carries a payment. */
export const paid = (req: { headers: http.IncomingHttpHeaders }) =>
  req.headers["payment-signature"] !== undefined || req.headers["x-payment"] !== undefined;

/** A seller of version 2: 402 at first, then what the handler does with paid requests. */
export function seller(t: TestContext, onPaid: Handler = deliver, amount?: string): Promise<Server> {
  let n = 0;
  return serve(t, (req, res, body) => {
    if (paid(req)) return onPaid(req, res, body, ++n);
    return json(res, 402, {}, { "PAYMENT-REQUIRED": challenge(amount) });
  });
}

/** The headers of a client of MCP, as its transport sends them. */
export const mcpHeaders: Record<string, string> = {
  "Content-Type": "application/json",
  Accept: "application/json, text/event-stream",
  "MCP-Protocol-Version": "2025-06-18",
};

/** What a seller answers to a paid request. */
export const deliver: Handler = (_req, res, body) => {
  json(res, 200, { report: "sunny", body }, { "PAYMENT-RESPONSE": receipt });
};

/** The payments that a server got, as the header's value. */
export const paymentsOf = (s: Server) =>
  s.got.filter(paid).map((g) => String(g.headers["payment-signature"] ?? g.headers["x-payment"]));

/** Options of tests in which no time runs out: a machine that pauses is not the client's fault. */
export const quick = { receiptWait: 30_000, payTimeout: 30_000, paidTimeout: 30_000 };

/** The error that a promise rejects with. */
export async function failure(work: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  try {
    await work;
  } catch (error) {
    assert(error instanceof Error);
    return error as Error & Record<string, unknown>;
  }
  throw new assert.AssertionError({ message: "it did not fail" });
}

/** Nothing that is printed of an error may hold a secret. */
export async function discreet(error: unknown): Promise<void> {
  const { inspect } = await import("node:util");
  const shown = inspect(error, { depth: 12, showHidden: false }) + JSON.stringify(error) + String(error);
  assert(!shown.includes(apiKey), "the API key is in an error");
  assert(!shown.includes(signature().slice(0, 60)), "a payment is in an error");
}
