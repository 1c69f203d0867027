// What every peer shares: configuration from the environment, one line of JSON on stdout, and an orderly end.

import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";

/** The value of an environment variable, its default, or the end of the process with its name. */
export function env(name, fallback) {
  const value = process.env[name] || fallback;
  if (value === undefined) {
    console.error(`${name} is not set`);
    process.exit(2);
  }
  return value;
}

/**
 * Listens on a free loopback port and says where; with TLS_CERT and TLS_KEY, the names of PEM files, on another one over
 * https as well. Ends with SIGTERM, and with stdin, so that no peer outlives its test.
 */
export async function serve(app) {
  const url = `http://127.0.0.1:${await listen(http.createServer(app))}`;
  const { TLS_CERT, TLS_KEY } = process.env;
  if (TLS_CERT) {
    const files = { cert: readFileSync(TLS_CERT), key: readFileSync(TLS_KEY) };
    console.log(JSON.stringify({ url, tls: `https://127.0.0.1:${await listen(https.createServer(files, app))}` }));
  } else {
    console.log(JSON.stringify({ url }));
  }
  const end = () => process.exit(0);
  process.on("SIGTERM", end);
  process.stdin.on("end", end).on("close", end).resume();
}

/** The port that a server listens on from now on. */
function listen(server) {
  // A connection that ends while the next request is on its way fails that, and a POST is not sent again.
  server.keepAliveTimeout = 0; // never
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => resolve(server.address().port));
  });
}

/** Prints what an agent got, and ends. */
export function report(status, headers, body) {
  console.log(JSON.stringify({ status, headers: Object.fromEntries(headers), body }));
  process.exit(0);
}
