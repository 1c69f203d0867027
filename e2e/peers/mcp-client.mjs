// The official MCP client for TypeScript. It calls tools one after the other, and prints one line of JSON. Environment:
// SERVER is the URL of a streamable HTTP server, or a JSON list with the command of a stdio server; CALLS is a JSON list of
// {name, arguments}.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { env } from "./process.mjs";

function transport(server) {
  if (!server.startsWith("[")) return new StreamableHTTPClientTransport(new URL(server));
  const [command, ...args] = JSON.parse(server);
  return new StdioClientTransport({ command, args, env: process.env });
}

const client = new Client({ name: "e2e", version: "1" });
await client.connect(transport(env("SERVER")));
const tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
const results = [];
for (const call of JSON.parse(env("CALLS"))) {
  const result = await client.callTool(call);
  const texts = result.content.filter((part) => part.type === "text").map((part) => part.text);
  results.push({ error: result.isError ?? false, text: texts.join(""), structured: result.structuredContent });
}
await client.close();
console.log(JSON.stringify({ tools, results }));
