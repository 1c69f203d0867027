// The official paying client: @x402/fetch, or x402-fetch 1.2.0 with VERSION=1. Requests URL once, pays what it asks, and
// prints one line of JSON. Environment: URL, PRIVATE_KEY; VERSION, METHOD, BODY.

import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { wrapFetchWithPayment as wrapFetchV1 } from "x402-fetch";
import { env } from "./process.mjs";

const account = privateKeyToAccount(env("PRIVATE_KEY"));
const pay =
  env("VERSION", "2") === "1"
    ? wrapFetchV1(fetch, account)
    : wrapFetchWithPayment(fetch, new x402Client().register("eip155:*", new ExactEvmScheme(account)));

const response = await pay(env("URL"), {
  method: env("METHOD", "GET"),
  body: process.env.BODY || undefined,
  signal: AbortSignal.timeout(30_000),
});
console.log(
  JSON.stringify({
    status: response.status,
    body: await response.text(),
    receipt: response.headers.get("payment-response") ?? response.headers.get("x-payment-response") ?? "",
  }),
);
process.exit(0);
