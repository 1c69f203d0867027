// Writes what the official client of npm sends to a seller, and what it gets: node vectors.mjs URL FOLDER SELLER RAIL…
// A rail is as in sellers/mppx.mjs; RAIL+post sends a body, RAIL+again sends the credential twice.

import fs from "node:fs";
import http from "node:http";
import { client, KEY } from "./mppx.mjs";

const [base, folder, seller, ...rails] = process.argv.slice(2);

for (const name of rails) {
  const [rail, kind] = name.split("+");
  const exchanges = [];
  const mppx = client(await wire(exchanges));
  const init = kind === "post" ? { method: "POST", body: "hello \u00fc", headers: { "Content-Type": "text/plain" } } : {};
  try {
    await mppx.fetch(`${base}/${rail}`, init);
  } catch (error) {
    console.error(name, error.message);
  }
  if (kind === "again") {
    const { request } = exchanges.at(-1);
    await (await wire(exchanges))(base + request.url, { method: request.method, headers: request.headers });
  }
  const text = JSON.stringify({ seller, client: "npm mppx 0.11.0", rail: name, key: KEY, exchanges }, null, 2);
  fs.writeFileSync(`${folder}/${seller.split(" ")[1]}_mppx_${name.replaceAll("/", "-")}.json`, text + "\n");
  console.log(name, exchanges.map((x) => x.answer.status).join(" "));
}

/** A fetch that records exchanges, with header values as bytes. */
async function wire(exchanges) {
  return (input, init = {}) =>
    new Promise((done, fail) => {
      const headers = Object.fromEntries(new Headers(init.headers));
      const req = http.request(input, { method: init.method ?? "GET", headers }, async (res) => {
        const parts = [];
        for await (const part of res) parts.push(part);
        const body = Buffer.concat(parts);
        exchanges.push({
          request: { method: req.method, url: req.path, headers, ...(init.body && { body: init.body }) },
          answer: { status: res.statusCode, headers: res.headersDistinct, body: body.toString() },
        });
        const answer = new Headers();
        for (const [name, values] of Object.entries(res.headersDistinct)) for (const value of values) answer.append(name, value);
        done(new Response(body.length ? body : null, { status: res.statusCode, headers: answer }));
      });
      req.on("error", fail);
      req.end(init.body);
    });
}
