// As agent-fetch.mjs, for Node before 24: undici with its agent for the proxies of the environment.

import { EnvHttpProxyAgent, request } from "undici";
import { env, report } from "./process.mjs";

const response = await request(env("URL"), {
  dispatcher: new EnvHttpProxyAgent(),
  method: env("METHOD", "GET"),
  body: process.env.BODY || undefined,
  headers: process.env.BODY ? { "Content-Type": "application/json" } : {},
  signal: AbortSignal.timeout(30_000),
});
report(response.statusCode, Object.entries(response.headers), await response.body.text());
