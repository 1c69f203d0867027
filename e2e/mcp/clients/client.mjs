// The client of @modelcontextprotocol/client, the second generation. It calls tools one after the other, and prints a line of
// JSON for each. Environment: SERVER is a URL; CALLS is a JSON list of {name, arguments}; MODE is auto or legacy.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { callAll } from "./calls.mjs";
import { paying } from "./paying.mjs";

const client = new Client({ name: "e2e", version: "1" }, { versionNegotiation: { mode: process.env.MODE } });
await client.connect(new StreamableHTTPClientTransport(new URL(process.env.SERVER), await paying()));
await callAll((call) => client.callTool(call, { onprogress: () => {} }));
await client.close();
