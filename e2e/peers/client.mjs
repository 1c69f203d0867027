// The official paying client: @x402/fetch, or x402-fetch 1.2.0 with VERSION=1. Requests URL once, pays what it asks, and
// prints one line of JSON. Environment: URL, PRIVATE_KEY; VERSION, METHOD, BODY, PROXY (http://key@host:port).

import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { setGlobalDispatcher } from "undici";
import { privateKeyToAccount } from "viem/accounts";
import { wrapFetchWithPayment as wrapFetchV1 } from "x402-fetch";
import { env } from "./process.mjs";
import { throughProxy } from "./proxy.mjs";

if (process.env.PROXY) setGlobalDispatcher(throughProxy(process.env.PROXY));

const account = privateKeyToAccount(env("PRIVATE_KEY"));
const pay =
  env("VERSION", "2") === "1"
    ? wrapFetchV1(fetch, account)
    : wrapFetchWithPayment(fetch, new x402Client().register("eip155:*", new ExactEvmScheme(account)));

async function buy() {
  const response = await pay(env("URL"), {
    method: env("METHOD", "GET"),
    body: process.env.BODY || undefined,
    signal: AbortSignal.timeout(30_000),
  });
  return {
    status: response.status,
    body: await response.text(),
    receipt: response.headers.get("payment-response") ?? response.headers.get("x-payment-response") ?? "",
  };
}

// The packages throw at a 402 that they cannot pay.
const got = await buy().catch((error) => ({ status: 0, error: String(error) }));
console.log(JSON.stringify(got));
process.exit(0);
