// An agent that knows nothing of payments: undici's fetch through the forward proxy PROXY, once. Prints one line of
// JSON. Environment: URL, PROXY (http://key@host:port); METHOD, BODY.

import { fetch, ProxyAgent } from "undici";
import { env } from "./process.mjs";

const proxy = new URL(env("PROXY"));
const credentials = Buffer.from(`${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`);
const dispatcher = new ProxyAgent({
  uri: proxy.origin,
  token: `Basic ${credentials.toString("base64")}`,
  proxyTunnel: false, // plain http in absolute form, as curl and Python send it
});

const response = await fetch(env("URL"), {
  dispatcher,
  method: env("METHOD", "GET"),
  body: process.env.BODY || undefined,
  headers: process.env.BODY ? { "Content-Type": "application/json" } : {},
  signal: AbortSignal.timeout(30_000),
});
console.log(
  JSON.stringify({
    status: response.status,
    body: await response.text(),
    headers: Object.fromEntries(response.headers),
  }),
);
process.exit(0);
