// The real thing: purser-sandbox, and the official sellers beside it. PURSER_SANDBOX_BIN names the program; the default is
// what `make build` leaves behind.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { createClient } from "purserpay";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const sandbox = process.env["PURSER_SANDBOX_BIN"] ?? `${repository}/bin/purser-sandbox`;
const peers = `${repository}/e2e/peers`;
const payTo = "0x2222222222222222222222222222222222222222";

/** What purser-sandbox -json prints, as far as it is needed. */
interface About {
  api: string;
  key: string;
  wallet: string;
  seller: string;
  facilitator: string;
  rpc: string;
  token: string;
}

export interface World extends About {
  /** URLs of the sellers by the names that scenarios use. */
  sellers: Record<string, string>;
  /** What is left in the wallet, in the smallest unit. */
  balance(): Promise<bigint>;
  /** The same world with a key and a funded wallet of its own: what one buyer spends is not another one's. */
  purse(): Promise<World>;
  close(): void;
}

/** Starts it all. */
export async function startWorld(env: Record<string, string> = {}): Promise<World> {
  assert(existsSync(sandbox), `${sandbox} is not there: run \`make build\` or set PURSER_SANDBOX_BIN`);
  assert(existsSync(`${peers}/node_modules`), "the official sellers are not installed: run `make e2e-deps`");
  const children: ChildProcess[] = [];
  const close = () => {
    for (const child of children) child.kill();
  };
  process.once("exit", close);
  try {
    const about = (await start(children, sandbox, ["-json", "-port", "0"], env)) as unknown as About;
    const sellers: Record<string, string> = { sandbox: `http://127.0.0.1:${new URL(about.seller).port}` };
    for (const version of ["v1", "v2"]) {
      const settings = { FACILITATOR_URL: about.facilitator, PAY_TO: payTo };
      const peer = await start(children, process.execPath, [`${peers}/seller-${version}.mjs`], settings);
      sellers[`official-${version}`] = peer["url"] ?? "";
    }
    const world: World = { ...about, sellers, balance: () => balance(about), purse: () => purse(world), close };
    return world;
  } catch (error) {
    close();
    throw error;
  }
}

/** Starts a program that prints one line of JSON when it is ready. */
async function start(children: ChildProcess[], program: string, args: string[], env: Record<string, string>) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line) as Record<string, string>;
  throw new Error(`${program} ended before it was ready`);
}

async function purse(world: World): Promise<World> {
  const { key } = await createClient({ baseUrl: world.api }).keys.create({ label: "buyer" });
  const { address } = await createClient({ baseUrl: world.api, apiKey: key }).wallets.create({ network: "base" });
  assert(address);
  const given = await fetch(`${world.sellers["sandbox"]}/faucet`, { method: "POST", body: new URLSearchParams({ address }) });
  assert.equal(given.status, 200, "the faucet gives nothing");
  const own = { ...world, key, wallet: address };
  return { ...own, balance: () => balance(own) };
}

async function balance(a: About): Promise<bigint> {
  const data = `0x70a08231${a.wallet.slice(2).toLowerCase().padStart(64, "0")}`; // balanceOf(address)
  const call = { jsonrpc: "2.0", id: 1, method: "eth_call", params: [{ to: a.token, data }, "latest"] };
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(a.rpc, { method: "POST", headers, body: JSON.stringify(call) });
  return BigInt(((await answer.json()) as { result: string }).result);
}

/**
 * A relay in front of a server, with the faults of BEHAVIOUR.md §10, and `paid-request-held:N` and `pay-request-held:N`, with
 * which it keeps the first N paid requests or calls of purser and says nothing. With `moves` it leads each request without
 * payment to a URL of its own first. It notes the payment headers that it sees.
 */
export interface Relay {
  url: string;
  payments: { name: string; value: string }[];
  close(): void;
}

export async function relay(to: string, fault = "", { keepAlive = true, moves = false } = {}): Promise<Relay> {
  const [kind = "", count] = fault.split(":");
  const atPurser = kind.startsWith("pay-");
  let left = Number(count ?? 0);
  let led = 0;
  const payments: Relay["payments"] = [];
  const server = http.createServer((req, res) => {
    res.shouldKeepAlive &&= keepAlive;
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of req) chunks.push(chunk as Buffer);
      let struck = atPurser && req.url === "/v1/pay";
      for (const name of ["PAYMENT-SIGNATURE", "X-PAYMENT"]) {
        const value = req.headers[name.toLowerCase()];
        if (typeof value !== "string") continue;
        payments.push({ name, value });
        if (!atPurser) struck = true;
      }
      const url = req.url ?? "";
      if (moves && !url.includes("led=")) {
        return res.writeHead(302, { Location: `${url}${url.includes("?") ? "&" : "?"}led=${++led}` }).end();
      }
      struck &&= left-- > 0;
      if (struck && kind.endsWith("-held")) return undefined; // until the relay is closed
      if (struck && kind === "paid-request-lost") return req.socket.destroy();
      if (struck && kind === "paid-503") return res.writeHead(503).end();
      const answer = await forward(to, req, Buffer.concat(chunks));
      if (struck) return req.socket.destroy();
      return res.writeHead(answer.status, answer.headers).end(answer.body);
    })().catch(() => {
      req.socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, payments, close };
}

interface Whole {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

function forward(to: string, from: http.IncomingMessage, body: Buffer): Promise<Whole> {
  const { host: _, ...headers } = from.headers;
  return new Promise((resolve, reject) => {
    // A kept connection may be closed by the server just when the next request leaves.
    const how = { method: from.method ?? "GET", headers, agent: false } as const;
    const request = http.request(to + (from.url ?? ""), how, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("end", () => {
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) });
      });
    });
    request.on("error", reject);
    request.end(body);
  });
}
