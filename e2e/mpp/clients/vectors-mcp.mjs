// Writes what the official client and the official server of npm say in MCP: node vectors-mcp.mjs FOLDER.

import fs from "node:fs";
import { Mppx, tempo, Transport } from "mppx/server";
import { McpClient } from "mppx/mcp/client";
import { createClient, http } from "viem";
import { tempo as tempoChain } from "viem/chains";
import { client, KEY } from "./mppx.mjs";

const { TEMPO_RPC_URL, PAY_TO } = process.env;
const chain = { ...tempoChain, id: 4217, rpcUrls: { default: { http: [TEMPO_RPC_URL] } } };
const server = Mppx.create({
  realm: "mpp.seller.test", secretKey: "a secret of play that is 32 bytes long", transport: Transport.mcp(),
  methods: [
    tempo.charge({
      currency: "0x20c0000000000000000000000000000000000000", recipient: PAY_TO, chainId: 4217,
      getClient: () => createClient({ chain, transport: http(TEMPO_RPC_URL) }),
    }),
  ],
});

const exchanges = [];
let id = 0;

async function call(params) {
  const request = { jsonrpc: "2.0", id: ++id, method: "tools/call", params };
  const paid = await server.charge({ amount: "0.01" })(request);
  const answer =
    paid.status === 402
      ? paid.challenge
      : paid.withReceipt({ jsonrpc: "2.0", id: request.id, result: { content: [{ type: "text", text: "sunny" }] } });
  exchanges.push({ request, answer });
  if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
  return answer.result;
}

const agent = { callTool: call };
McpClient.wrap(agent, { methods: client().methods ?? client.methods });
await agent.callTool({ name: "get_weather", arguments: { city: "Kiel" } });
await call(exchanges.at(-1).request.params).catch((error) => console.log("again:", error.code));
fs.writeFileSync(
  `${process.argv[2]}/mppx_mppx_mcp+again.json`,
  JSON.stringify({ seller: "npm mppx 0.11.0", client: "npm mppx 0.11.0", rail: "tempo in MCP", key: KEY, exchanges }, null, 2) + "\n",
);
