// The official seller of npm, with routes that behave as sellers do whose challenges rotate.
//
//   GET or POST /<rail>[/<fault>][/<number>]
//
// Rails: evm, tempo, sponsored (tempo, where the seller pays the fee), both (evm, x402 and tempo), auth (tempo, with the
// credential in Payment-Authorization; for evm the official server asks for that header and does not read it), split (tempo with two payees), free (tempo with an amount of 0).
// Faults: storm, deaf, dead, after/N, twins. GET /count shows what was seen, GET /orders how many credentials were settled
// for each path and query, and GET /log the exchanges, if LOG is set.

import http from "node:http";
import https from "node:https";
import fs from "node:fs";
import { Readable } from "node:stream";
import { Mppx, tempo } from "mppx/server";
import { evm } from "mppx/evm/server";
import { createClient, http as rpc } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { tempo as tempoChain } from "viem/chains";

const { FACILITATOR_URL, TEMPO_RPC_URL, PAY_TO, SPONSOR_KEY, SEED = "1" } = process.env;
const secretKey = "a secret of play that is 32 bytes long";
const USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const PATH_USD = "0x20c0000000000000000000000000000000000000";
const PRICE = "0.01";
const SPLIT_TO = "0x00000000000000000000000000000000000000aa";

const count = { challenges: 0, credentials: 0, distinct: 0, settled: 0, answers: 0 };
const orders = {}; // by path and query → credentials that were settled
const log = [];

// ---- the official server, once for each rail

const settledOn = new Map(); // nonces of evm → what settled them

/** Settles with the facilitator, and tells a nonce that is settled already its transaction. */
async function settle({ payload, request }) {
  const { from, to, value, validAfter, validBefore, nonce, signature } = payload;
  settledOn.has(nonce) || settledOn.set(nonce, pay());
  try {
    return await settledOn.get(nonce);
  } catch (error) {
    settledOn.delete(nonce);
    throw error;
  }

  async function pay() {
    const accepted = {
      scheme: "exact", network: `eip155:${request.methodDetails.chainId}`, amount: request.amount, asset: request.currency,
      payTo: request.recipient, maxTimeoutSeconds: 60, extra: { name: "USD Coin", version: "2" },
    };
    const authorization = { from, to, value, validAfter, validBefore, nonce };
    const answer = await fetch(`${FACILITATOR_URL}/settle`, {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        x402Version: 2, paymentRequirements: accepted,
        paymentPayload: { x402Version: 2, accepted, payload: { authorization, signature } },
      }),
    });
    const result = await answer.json();
    if (!result.success) throw new Error(result.errorReason ?? "not settled");
    count.settled++;
    return { reference: result.transaction };
  }
}

const evmMethod = (more) =>
  evm.charge({
    chainId: 8453, currency: USDC, decimals: 6, recipient: PAY_TO, authorization: { name: "USD Coin", version: "2" }, settle, ...more,
  });

const chain = { ...tempoChain, id: 4217, rpcUrls: { default: { http: [TEMPO_RPC_URL] } } };
const tempoMethod = (more) =>
  tempo.charge({
    currency: PATH_USD, recipient: PAY_TO, chainId: 4217,
    getClient: () => createClient({ chain, transport: rpc(TEMPO_RPC_URL) }), ...more,
  });

const realm = "mpp.seller.test";
const create = (methods, more) => Mppx.create({ methods, secretKey, realm, ...more });
const rails = { evm: create([evmMethod()]).charge };
if (TEMPO_RPC_URL) {
  const sponsor = SPONSOR_KEY && privateKeyToAccount(SPONSOR_KEY);
  rails.tempo = create([tempoMethod()]).charge;
  rails.auth = create([tempoMethod()], { requiresAuth: true }).charge;
  if (sponsor) rails.sponsored = create([tempoMethod({ feePayer: sponsor, feeToken: PATH_USD })]).charge;
  rails.split = create([tempoMethod({ splits: [{ amount: "0.002", recipient: SPLIT_TO }] })]).charge;
  rails.free = create([tempoMethod()]).charge;
  const both = create([evmMethod({ x402: { facilitator: FACILITATOR_URL } }), tempoMethod()]);
  rails.both = (options) => both.compose(["evm/charge", options], ["tempo/charge", options]);
}

/** Asks the official server about a request. It answers { status: 402, challenge } or { withReceipt }. */
function ask(rail, fault, request) {
  const options = { amount: rail === "free" ? "0" : PRICE, description: 'A "good" of M\u00fcller' };
  if (fault === "twins") options.expires = new Date(Math.ceil(Date.now() / 60_000) * 60_000 + 60_000).toISOString();
  return rails[rail](options)(request);
}

// ---- faults

const random = generator(Number(SEED));
const credentials = new Map(); // a credential → { seen, answer }
const denials = {}; // by URL

/** Numbers in [0, 1) that are the same for the same seed: mulberry32. */
function generator(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const credentialOf = (headers) =>
  [headers.get("payment-authorization"), headers.get("authorization"), headers.get("payment-signature")].find(
    (value) => value && (!/^\w+ /.test(value) || /^payment /i.test(value)),
  );

/** A fresh challenge, as for a request without a credential. */
async function deny(rail, fault, request) {
  const headers = new Headers(request.headers);
  for (const name of ["authorization", "payment-authorization", "payment-signature"]) headers.delete(name);
  count.challenges++;
  return (await ask(rail, fault, new Request(request.url, { method: request.method, headers, body: request.body, duplex: "half" }))).challenge;
}

/** Settles once for a credential, and answers the same at each later time. */
async function settled(rail, fault, request, one, body) {
  one.answer ??= (async () => {
    const result = await ask(rail, fault, request);
    if (result.status !== 200) {
      one.answer = undefined;
      if (result.challenge.status === 402) count.challenges++;
      return { refused: result.challenge };
    }
    if (rail !== "evm") count.settled++;
    const { pathname, search } = new URL(request.url);
    orders[pathname + search] = (orders[pathname + search] ?? 0) + 1;
    const answer = result.withReceipt(Response.json({ good: "weather", body: body.toString("latin1") }));
    return { text: await answer.text(), headers: answer.headers };
  })();
  const { refused, text, headers } = await one.answer;
  return refused ?? new Response(text, { headers });
}

const LOST = Symbol("the connection is closed");

async function serve(request, body) {
  const [, rail, fault, n] = new URL(request.url).pathname.split("/");
  if (!rails[rail]) return Response.json({ rails: Object.keys(rails) }, { status: 404 });
  const credential = credentialOf(request.headers);
  if (!credential) return deny(rail, fault, request);

  count.credentials++;
  if (!credentials.has(credential)) {
    credentials.set(credential, { seen: 0 });
    count.distinct++;
  }
  const one = credentials.get(credential);
  one.seen++;
  const good = async () => {
    const answer = await settled(rail, fault, request, one, body);
    if (answer.status === 200) count.answers++;
    return answer;
  };
  const settledThen = async (then) => {
    const answer = await settled(rail, fault, request, one, body);
    return answer.status === 200 ? then() : answer;
  };
  switch (fault) {
    case "storm": {
      // The first two times a credential meets a fault as often as not; the third time it gets what there is. A payload
      // of x402 is not denied: there a 402 is a refusal.
      const r = one.seen > 2 ? 1 : random();
      if (r < 0.4 && request.headers.has("payment-signature")) return good();
      if (r < 0.2) return deny(rail, fault, request);
      if (r < 0.4) return settledThen(() => deny(rail, fault, request));
      if (r < 0.5) return settledThen(() => LOST);
      if (r < 0.55) return LOST;
      return good();
    }
    case "deaf":
      return settledThen(() => deny(rail, fault, request));
    case "dead":
      return deny(rail, fault, request);
    case "after":
      denials[request.url] = (denials[request.url] ?? 0) + 1;
      return denials[request.url] > Number(n) ? good() : settledThen(() => deny(rail, fault, request));
    case "plain": {
      // The official server alone, which has no memory of answers.
      const result = await ask(rail, fault, request);
      if (result.status !== 200) return result.challenge;
      count.answers++;
      return result.withReceipt(Response.json({ good: "weather" }));
    }
    default:
      return good();
  }
}

// ---- the server

async function handle(req, res) {
  if (req.url === "/count") return res.setHeader("Content-Type", "application/json").end(JSON.stringify(count));
  if (req.url === "/orders") return res.setHeader("Content-Type", "application/json").end(JSON.stringify(orders));
  if (req.url === "/log") return res.setHeader("Content-Type", "application/json").end(JSON.stringify(log));
  const parts = [];
  for await (const part of req) parts.push(part);
  const body = Buffer.concat(parts);
  const headers = Object.entries(req.headersDistinct).flatMap(([name, values]) => values.map((value) => [name, value]));
  const request = new Request(`http://${req.headers.host}${req.url}`, {
    method: req.method, headers, ...(body.length && { body: Readable.toWeb(Readable.from([body])), duplex: "half" }),
  });
  const answer = await serve(request, body);
  if (answer === LOST) return req.socket.destroy();
  const text = Buffer.from(await answer.arrayBuffer());
  if (process.env.LOG) {
    log.push({
      request: { method: req.method, url: req.url, headers: req.headers },
      answer: { status: answer.status, headers: Object.fromEntries(answer.headers), body: text.toString() },
    });
  }
  const headersOut = Object.fromEntries(answer.headers);
  if (!request.url.includes("/both")) delete headersOut["payment-required"]; // which the official server always adds to evm
  res.writeHead(answer.status, headersOut).end(text);
}

const guarded = (req, res) =>
  handle(req, res).catch((error) => {
    console.error(error);
    res.headersSent ? res.destroy() : res.writeHead(500).end();
  });

const servers = [http.createServer(guarded)];
const { TLS_CERT, TLS_KEY } = process.env;
if (TLS_CERT) servers.push(https.createServer({ cert: fs.readFileSync(TLS_CERT), key: fs.readFileSync(TLS_KEY) }, guarded));
await Promise.all(servers.map((server) => new Promise((done) => server.listen(0, "127.0.0.1", done))));
const at = (i, scheme) => servers[i] && `${scheme}://127.0.0.1:${servers[i].address().port}`;
console.log(JSON.stringify({ url: at(0, "http"), tls: at(1, "https") }));
process.stdin.resume().on("end", () => process.exit()); // the end of the input ends the seller
