// The forward proxy as Node's programs reach it.

import { ProxyAgent } from "undici";

/** A dispatcher for the proxy at http://key[:task]@host:port. */
export function throughProxy(address) {
  const proxy = new URL(address);
  const credentials = Buffer.from(`${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`);
  return new ProxyAgent({
    uri: proxy.origin,
    token: `Basic ${credentials.toString("base64")}`,
    proxyTunnel: false, // plain http in absolute form, as curl and Python send it
  });
}
