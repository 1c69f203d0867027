// An agent that knows nothing of payments: undici's fetch through the forward proxy PROXY, once. Prints one line of
// JSON. Environment: URL, PROXY (http://key@host:port); METHOD, BODY.

import { fetch } from "undici";
import { env, report } from "./process.mjs";
import { throughProxy } from "./proxy.mjs";

const response = await fetch(env("URL"), {
  dispatcher: throughProxy(env("PROXY")),
  method: env("METHOD", "GET"),
  body: process.env.BODY || undefined,
  headers: process.env.BODY ? { "Content-Type": "application/json" } : {},
  signal: AbortSignal.timeout(30_000),
});
report(response.status, response.headers, await response.text());
