// An MCP server that sells a tool with Cloudflare's package agents, withX402. Environment: FACILITATOR_URL, PAY_TO; SDK is 1
// or 2, the generation of the server; SESSION, JSON, EVENTS (answers can be resumed), PROGRESS and CUT are on if they are
// not empty. With SDK 2 there are no sessions.

import { randomUUID } from "node:crypto";
import { McpServer as McpServer1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { createMcpHandler, McpServer as McpServer2 } from "@modelcontextprotocol/server";
import { withX402 } from "agents/x402";
import { z } from "zod";
import { env, serve } from "../../peers/process.mjs";
import { EventStore } from "./events.mjs";
import { counting, hello, ofWeb, PRICE, TOOL, weather } from "./tools.mjs";

const { SESSION, JSON: inJSON, EVENTS } = process.env;

function shop(Server, schema) {
  const server = withX402(new Server({ name: "cloudflare", version: "1" }), {
    network: "base",
    recipient: env("PAY_TO"),
    facilitator: { url: env("FACILITATOR_URL") },
  });
  server.paidTool(TOOL, "The weather in a city", PRICE, schema({ city: z.string() }), {}, weather);
  server.registerTool("hello", { description: "A greeting", inputSchema: schema({ name: z.string() }) }, hello);
  return server;
}

const open = new Map(); // transports by session

async function generation1(req, res) {
  let transport = open.get(req.headers["mcp-session-id"]);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: SESSION ? randomUUID : undefined,
      enableJsonResponse: Boolean(inJSON),
      eventStore: EVENTS ? new EventStore() : undefined,
      retryInterval: 100,
      onsessioninitialized: (id) => open.set(id, transport),
    });
    await shop(McpServer1, (shape) => shape).connect(transport);
  }
  await transport.handleRequest(req, res);
}

function generation2() {
  const handler = createMcpHandler(() => shop(McpServer2, z.object), { responseMode: inJSON ? "json" : "sse" });
  return ofWeb(handler.fetch);
}

await serve(counting(env("SDK") === "1" ? generation1 : generation2()));
