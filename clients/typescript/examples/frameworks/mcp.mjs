// MCP SDK: calls of a server's tools are paid.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { fromEnv, wrapFetch } from "purserpay";

const paying = wrapFetch(fetch, fromEnv());
const client = new Client({ name: "buyer", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.env.MCP_URL), { fetch: paying }));
const answer = await client.callTool({ name: "weather", arguments: {} });
console.log(answer.content[0].text);
await client.close();
