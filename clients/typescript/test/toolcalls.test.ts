// Calls of MCP, which are known as purser's proxy knows them.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import axios from "axios";
import { purserErrorOf, wrapFetch } from "purserpay";
import { payWithAxios } from "purserpay/axios";
import { contentOf } from "../dist/esm/body.js";
import { cut, deliver, fakePurser, type Handler, mcpHeaders, seller, vectors, apiKey, failure, quick } from "./fake.js";

interface Case {
  name: string;
  url: string;
  site: string | null;
  headers?: Record<string, string>;
  same: string[];
  other: string[];
}

describe("calls", { concurrency: true }, () => {
  for (const c of vectors<{ cases: Case[] }>("calls.json").cases) {
    it(c.name, async () => {
      const headers = new Headers({ ...mcpHeaders, ...c.headers });
      const known = (body: string, method = "POST") =>
        contentOf({ method, url: new URL(c.url), header: (name) => headers.get(name), body: () => body });
      const same = await Promise.all(c.same.map((body) => known(body)));
      for (const [i, { call }] of same.entries()) assert.equal(call?.site ?? null, c.site, c.same[i]);
      if (c.site !== null) assert.equal(new Set(same.map(({ digest }) => digest)).size, 1);
      for (const body of c.other) assert.notEqual((await known(body)).digest, same[0]?.digest, body);
      assert.equal((await known(c.same[0] ?? "", "PUT")).call, undefined);
    });
  }

  it("longer than 1 MiB are bodies like others", async () => {
    const header = (name: string) => new Headers(mcpHeaders).get(name);
    const body = () => `{"id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":"${"x".repeat(1 << 20)}"}}}`;
    assert.equal((await contentOf({ method: "POST", url: new URL("https://shop.test"), header, body })).call, undefined);
  });

  const message = (id: number, city = "Oslo") => {
    const params = { name: "weather", arguments: { city }, _meta: { progressToken: id } };
    return JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params });
  };

  it("get the payment whose answer was lost, whatever their number, and are booked under their tool", async (t) => {
    const purser = await fakePurser(t);
    const answers: Handler[] = [cut, cut];
    const shop = await seller(t, (...about) => (answers.shift() ?? deliver)(...about));
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick, resends: 0 });
    const call = (id: number, city?: string, task?: string) => fetch(shop.url, { method: "POST", headers: mcpHeaders, body: message(id, city), task });
    for (const city of ["Oslo", "Rome"]) assert.equal(purserErrorOf(await failure(call(1, city)))?.code, "unclear");
    assert.equal((await call(2)).status, 200);
    assert.equal((await call(3, "Rome", "other")).status, 200); // another task's
    assert.equal((await call(4, "Rome")).status, 200);
    const keys = purser.pays.map((p) => p.idempotencyKey);
    assert.deepEqual([keys[2], keys[4], new Set(keys).size], [keys[0], keys[1], 3]);
    assert.deepEqual([...new Set(purser.pays.map((p) => p.requestUrl))], [`mcp://${new URL(shop.url).host}/tool/weather`]);
  });

  it("with a number that their session has had are repeats", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, deliver);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    const call = async (id: number, session?: string) => {
      const headers = session === undefined ? mcpHeaders : { ...mcpHeaders, "Mcp-Session-Id": session };
      await fetch(shop.url, { method: "POST", headers, body: message(id) });
      return purser.pays.at(-1)?.idempotencyKey;
    };
    const first = await call(1, "a");
    assert.equal(await call(1, "a"), first);
    assert.notEqual(await call(2, "a"), first);
    assert.notEqual(await call(2, "b"), await call(2, "a"));
    assert.notEqual(await call(3), await call(3));
  });

  const answer = 'data: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n\n';
  const opening = ": wait\r\n\r\n";
  const streams: Record<string, { pieces: string[]; ends?: boolean; type?: string; lost: boolean }> = {
    "a stream that is cut": { pieces: [opening], lost: true },
    "a stream that ends too early": { pieces: [opening], ends: true, lost: true },
    "a stream that is cut in its answer": { pieces: [answer.slice(0, -10)], lost: true },
    "a stream that is cut behind its answer": { pieces: [opening, answer.slice(0, 9), answer.slice(9)], lost: false },
    "a stream that brings an error": { pieces: [answer.replace('"result":', '"error":').replaceAll("\n", "\r")], ends: true, lost: false },
    "a stream with the answer to another call": { pieces: [answer.replace('"id":1', '"id":2')], lost: true },
    "a stream of other messages": { pieces: ['data: {"method":"x","id":1}\n\ndata: 5\n\ndata:\n\n'], lost: true },
    "a stream that its client resumes": { pieces: ["id: 1\ndata:\n\n"], lost: false },
    "a stream that ends and that its client resumes": { pieces: ["id: 1\ndata:\n\n"], ends: true, lost: false },
    "a long stream, which is not looked through": { pieces: [`: ${"x".repeat(1 << 20)}`, "\n", answer], lost: false },
    "JSON that is cut": { pieces: ['{"id":1'], type: "application/json", lost: true },
    "JSON that comes whole": { pieces: [answer.slice(6)], ends: true, type: "application/json", lost: false },
  };
  for (const [name, { pieces, ends = false, type = "text/event-stream", lost }] of Object.entries(streams)) {
    it(`${lost ? "lose their answer" : "have their answer"} with ${name}`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t, async (req, res) => {
        res.writeHead(200, { "content-type": type });
        for (const piece of pieces) await new Promise((resolve) => res.write(piece, resolve));
        if (ends) return res.end();
        return setImmediate(() => req.socket.destroy());
      });
      const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
      for (const id of [1, 2]) {
        const got = await fetch(shop.url, { method: "POST", headers: mcpHeaders, body: message(id) });
        await got.text().catch(() => undefined);
      }
      const [first, second] = purser.pays.map((p) => p.idempotencyKey);
      assert.equal(first === second, lost);
    });
  }

  it("are known to axios as well, which does not look into answers", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, deliver);
    const instance = axios.create({ proxy: false });
    payWithAxios(instance, { apiKey, baseUrl: purser.url, ...quick });
    for (const id of [1, 2]) assert.equal((await instance.post(shop.url, message(id), { headers: mcpHeaders })).status, 200);
    assert.deepEqual(purser.pays.map((p) => p.requestUrl?.slice(0, 4)), ["mcp:", "mcp:"]);
    assert.notEqual(purser.pays[0]?.idempotencyKey, purser.pays[1]?.idempotencyKey);
  });

  it("are asked for by a dry run under the same URL", async (t) => {
    const purser = await fakePurser(t);
    const shop = await seller(t, deliver);
    const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick });
    await failure(fetch(shop.url, { method: "POST", headers: mcpHeaders, body: message(1), dryRun: true })); // this purser has no quotes
    assert.match(purser.got.find(({ url }) => url === "/v1/quote")?.body ?? "", /"requestUrl":"mcp:/);
  });
});
