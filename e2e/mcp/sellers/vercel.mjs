// An MCP server that sells a tool with Vercel's x402-mcp, version 1 of x402. Its answers are streams, and it knows no sessions.
// Environment: FACILITATOR_URL, PAY_TO, PROGRESS.

import { createPaidMcpHandler } from "x402-mcp/server";
import { z } from "zod";
import { env, serve } from "../../peers/process.mjs";
import { counting, hello, ofWeb, PRICE, TOOL, weather } from "./tools.mjs";

const handler = createPaidMcpHandler(
  (server) => {
    server.paidTool(TOOL, "The weather in a city", { price: PRICE }, { city: z.string() }, {}, weather);
    server.tool("hello", "A greeting", { name: z.string() }, hello);
  },
  { serverInfo: { name: "vercel", version: "1" } },
  { recipient: env("PAY_TO"), network: "base", facilitator: { url: env("FACILITATOR_URL") } },
);

await serve(counting(ofWeb(handler)));
