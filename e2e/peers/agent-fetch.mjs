// An agent that knows nothing of payments and of proxies: Node's own fetch, once. That it uses a proxy, and whom it
// trusts, is told by its environment (Node 24). Prints one line of JSON. Environment: URL; METHOD, BODY.

import { env, report } from "./process.mjs";

const response = await fetch(env("URL"), {
  method: env("METHOD", "GET"),
  body: process.env.BODY || undefined,
  headers: process.env.BODY ? { "Content-Type": "application/json" } : {},
  signal: AbortSignal.timeout(30_000),
});
report(response.status, response.headers, await response.text());
