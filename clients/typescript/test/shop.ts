// A shop for the programs of examples/frameworks.
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { createClient, type Payment } from "purserpay";
import type { World } from "./world.js";

interface Whole {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: string;
}

export interface Shop {
  url: string;
  payments: string[];
  close(): void;
}

/** Sells by a seller, dressed as what a framework expects, and loses the first answers to payments, which it remembers. */
export async function open(seller: string, lost = 0): Promise<Shop> {
  const payments: string[] = [];
  const sold = new Map<string, Whole>(); // handed out again for the same payment
  const sell = async (req: http.IncomingMessage, body: string): Promise<Whole | undefined> => {
    if (req.url === "/mcp" && !body.includes('"tools/call"')) return mcp(req, body);
    const payment = req.headers["payment-signature"] ?? req.headers["x-payment"];
    const path = req.method === "GET" ? "/weather" : "/echo";
    if (typeof payment !== "string") return dress(req, body, await ask(seller + path, req, body));
    payments.push(payment);
    const answer = sold.get(payment) ?? (await ask(seller + path, req, body));
    if (lost > 0) sold.set(payment, answer);
    return payments.length <= lost ? undefined : dress(req, body, answer);
  };
  const server = http.createServer((req, res) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of req) chunks.push(chunk as Buffer);
      const answer = await sell(req, Buffer.concat(chunks).toString());
      if (answer) res.writeHead(answer.status, answer.headers).end(answer.body);
      else req.socket.destroy();
    })().catch(() => req.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, payments, close };
}

async function ask(url: string, req: http.IncomingMessage, body: string): Promise<Whole> {
  const headers = Object.fromEntries(Object.entries(req.headers).filter(([name]) => /^(payment-|x-payment|content-type)/.test(name)));
  const asked = http.request(url, { method: req.method ?? "GET", headers, agent: false });
  asked.end(body);
  const [answer] = (await once(asked, "response")) as [http.IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  const { connection: _, "content-length": __, "transfer-encoding": ___, ...kept } = answer.headers;
  return { status: answer.statusCode ?? 0, headers: kept, body: Buffer.concat(chunks).toString() };
}

const json = (status: number, body: unknown, headers: http.IncomingHttpHeaders = {}): Whole => {
  return { status, headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) };
};

/** What a model or a tool says once it was paid. */
function dress(req: http.IncomingMessage, asked: string, answer: Whole): Whole {
  if (answer.status !== 200 || req.method === "GET") return answer;
  const content = [{ type: "text", text: "clear" }];
  if (req.url === "/mcp") {
    const { id } = JSON.parse(asked) as { id: number };
    return json(200, { jsonrpc: "2.0", id, result: { content } }, answer.headers);
  }
  if (req.url?.endsWith("/messages")) {
    const said = { id: "m", type: "message", role: "assistant", model: "any", content };
    return json(200, { ...said, usage: { input_tokens: 1, output_tokens: 1 }, stop_reason: "end_turn", stop_sequence: null }, answer.headers);
  }
  const choices = [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "clear" } }];
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  return json(200, { id: "c", object: "chat.completion", created: 1, model: "any", choices, usage }, answer.headers);
}

/** What costs nothing on the way to a tool. */
function mcp(req: http.IncomingMessage, body: string): Whole {
  if (req.method !== "POST") return json(405, {});
  const { id, method } = JSON.parse(body) as { id?: number; method: string };
  if (id === undefined) return { status: 202, headers: {}, body: "" };
  if (method !== "initialize") return json(200, { jsonrpc: "2.0", id, result: { tools: [] } });
  const serverInfo = { name: "shop", version: "1" };
  return json(200, { jsonrpc: "2.0", id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo } });
}

/** The environment in which a program of examples/frameworks buys. */
export function environment({ key, api }: { key: string; api: string }, shop: Shop, maxAmount = "0.05 USDC"): Record<string, string> {
  const purser = { PURSER_KEY: key, PURSER_URL: api, PURSER_MAX_AMOUNT: maxAmount };
  return { ...purser, SELLER: shop.url, MODEL_URL: shop.url, MCP_URL: `${shop.url}/mcp`, LANGSMITH_TRACING: "false" };
}

/** The payments that purser has journaled for a shop. */
export async function journaled(world: World, shop: Shop): Promise<Payment[]> {
  const all = await createClient({ apiKey: world.key, baseUrl: world.api }).payments.list({ limit: 500 });
  const tools = shop.url.replace("http:", "mcp:");
  return all.filter(({ request_url: url }) => url.startsWith(shop.url) || url.startsWith(tools));
}
