// What every seller here has: the tools, the count of runs of the paid one by city, and the page that shows it.

import { Readable } from "node:stream";

export const TOOL = "get_weather";
export const PRICE = 0.01; // dollars

const runs = {}; // by city

/** The paid tool. PROGRESS: it reports on its work first. CUT: it closes the stream before it answers. */
export async function weather({ city }, extra) {
  runs[city] = (runs[city] ?? 0) + 1;
  if (process.env.PROGRESS) await progress(extra);
  if (process.env.CUT) extra.closeSSEStream();
  return { content: [{ type: "text", text: `sunny in ${city}` }] };
}

/** The tool that is free. */
export async function hello({ name }) {
  return { content: [{ type: "text", text: `hello ${name}` }] };
}

async function progress(extra) {
  const { _meta, send } = extra.mcpReq
    ? { _meta: extra.mcpReq._meta, send: extra.mcpReq.notify }
    : { _meta: extra._meta, send: extra.sendNotification };
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return;
  await send({ method: "notifications/progress", params: { progressToken, progress: 1, total: 2 } });
}

/** An application that shows the count at /runs, and leaves the rest to a handler of Node.js. */
export function counting(handler) {
  return async (req, res) => {
    try {
      if (req.url === "/runs") res.setHeader("Content-Type", "application/json").end(JSON.stringify(runs));
      else await handler(req, res);
    } catch (error) {
      console.error(error);
      res.headersSent ? res.destroy() : res.writeHead(500).end();
    }
  };
}

/** A handler of Node.js from one of the web's kind. */
export function ofWeb(handler) {
  return async (req, res) => {
    const body = req.method === "POST" ? Readable.toWeb(req) : undefined;
    const headers = Object.entries(req.headersDistinct).flatMap(([name, values]) => values.map((value) => [name, value]));
    const url = `http://${req.headers.host}${req.url}`;
    const answer = await handler(new Request(url, { method: req.method, headers, body, duplex: "half" }));
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    res.flushHeaders();
    for await (const part of answer.body ?? []) res.write(part);
    res.end();
  };
}
