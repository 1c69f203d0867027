// Buys from URL with a reference client, CLIENTS requests at a time, for LENGTH ms after WARMUP ms, and prints one line
// of JSON: how long each request took, the whole time, the processor time of this process (ms), and its memory (MiB).
// VERSION is 2 for @x402/fetch, 1 for x402-fetch. The packages are those of e2e/peers.

import { createRequire } from "node:module";

const require = createRequire(new URL("../peers/package.json", import.meta.url));
const { privateKeyToAccount } = require("viem/accounts");
const { URL: url, VERSION, PRIVATE_KEY } = process.env;
const [clients, warmup, length] = [process.env.CLIENTS, process.env.WARMUP, process.env.LENGTH].map(Number);

function payingFetch() {
  const account = privateKeyToAccount(PRIVATE_KEY);
  if (VERSION === "1") {
    return require("x402-fetch").wrapFetchWithPayment(fetch, account);
  }
  const { wrapFetchWithPayment, x402Client } = require("@x402/fetch");
  const { ExactEvmScheme } = require("@x402/evm/exact/client");
  return wrapFetchWithPayment(fetch, new x402Client().register("eip155:*", new ExactEvmScheme(account)));
}

const pay = payingFetch();
let serial = 0;

async function buy(suffix) {
  const response = await pay(`${url}?n=${++serial}${suffix}`, { method: "GET" });
  const body = await response.text();
  if (response.status !== 200) {
    throw new Error(`status ${response.status}: ${body}`);
  }
}

async function run(milliseconds, suffix) {
  const times = [];
  const end = performance.now() + milliseconds;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      for (let now = performance.now(); now < end; ) {
        await buy(suffix);
        const after = performance.now();
        times.push(after - now);
        now = after;
      }
    }),
  );
  return times;
}

await run(warmup, "");
const began = performance.now();
const before = process.cpuUsage();
const times = await run(length, "&m=1");
const used = process.cpuUsage(before);
const took = performance.now() - began;
process.stdout.write(
  JSON.stringify({
    times,
    took,
    cpu: (used.user + used.system) / 1000,
    mib: process.memoryUsage.rss() / 2 ** 20,
  }),
  () => process.exit(0), // without waiting for idle connections
);
