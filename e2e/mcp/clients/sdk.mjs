// The client of @modelcontextprotocol/sdk, the first generation. It calls tools one after the other, and prints a line of JSON
// for each. Environment: SERVER is a URL; CALLS is a JSON list of {name, arguments}.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { callAll } from "./calls.mjs";
import { paying } from "./paying.mjs";

const client = new Client({ name: "e2e", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.env.SERVER), await paying()));
await callAll((call) => client.callTool(call, undefined, { onprogress: () => {} }));
await client.close();
