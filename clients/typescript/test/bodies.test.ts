// Bodies that are large, and clients whose classes are not the runtime's: none may cost a second payment.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { after, describe, it } from "node:test";
import { Readable } from "node:stream";
import { type Fetch, type PaymentOptions, purserErrorOf, wrapFetch } from "purserpay";
import { payWithAxios } from "purserpay/axios";
import { wrap as wrapGot } from "purserpay/got";
import { wrap as wrapUndici } from "purserpay/undici";
import axios from "axios";
import PackageForm from "form-data";
import got from "got";
import nodeFetch, { FormData as NodeForm, Request as NodeRequest } from "node-fetch";
import * as undici from "undici";
import { apiKey, challenge, challengeV1, cut, deliver, failure, fakePurser, json, paid, paymentsOf, quick, receipt, seller, serve } from "./fake.js";

const clients = { "node-fetch": nodeFetch as unknown as Fetch, "fetch of undici": undici.fetch as unknown as Fetch };

describe("large bodies", { concurrency: true }, () => {
  const large = 17 << 20;
  const bodies: Record<string, () => BodyInit> = {
    bytes: () => new Uint8Array(large).fill(7),
    text: () => "x".repeat(large),
    blob: () => new Blob([new Uint8Array(large)]),
    form: () => {
      const form = new FormData();
      form.append("file", new File([new Uint8Array(large)], "name"));
      return form;
    },
  };
  for (const [name, body] of Object.entries(bodies)) {
    it(`a lost answer to 17 MiB of ${name} is not paid for again`, async (t) => {
      let lost = true;
      const purser = await fakePurser(t);
      const shop = await seller(t, (req, res, text, n) => (lost ? cut(req, res, text, n) : res.end("goods")));
      const fetch = wrapFetch(globalThis.fetch, { apiKey, baseUrl: purser.url, ...quick, resends: 0 });
      const error = await failure(fetch(shop.url, { method: "POST", body: body() }));
      assert.equal(error.code, "unclear");
      lost = false;
      assert.equal((await fetch(shop.url, { method: "POST", body: body() })).status, 200);
      assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 1);
    });
  }

  it("a file that is streamed from a path is opened again, by fetch and by axios", async (t) => {
    const dir = mkdtempSync(`${tmpdir()}/purser-file-`);
    t.after(() => rmSync(dir, { recursive: true }));
    const path = `${dir}/upload`;
    const content = "0123456789".repeat(300_000);
    writeFileSync(path, content);
    const purser = await fakePurser(t);
    const shop = await seller(t);
    const options = { apiKey, baseUrl: purser.url, ...quick };
    const fetch = wrapFetch(globalThis.fetch, options);
    const stream = () => createReadStream(path, { start: 1 }) as unknown as ReadableStream;
    const init = { method: "POST", body: stream(), duplex: "half" };
    assert.equal((await fetch(shop.url, init)).status, 200);
    const http = axios.create({ proxy: false });
    payWithAxios(http, options);
    for (const adapter of ["http", "fetch"] as const) assert.equal((await http.post(shop.url, stream(), { adapter })).status, 200);
    assert(shop.got.length >= 6 && shop.got.every((g) => g.body === content.slice(1)));
    assert.equal(purser.pays.length, 3);
    const begun = createReadStream(path);
    await once(begun, "readable");
    begun.read(1);
    assert.equal((await failure(fetch(shop.url, { ...init, body: begun as unknown as ReadableStream }))).code, "not-replayable");
  });
});

describe("bodies that a client gives away once", { concurrency: true }, () => {
  const text = "0123456789".repeat(1000);
  const dir = mkdtempSync(`${tmpdir()}/purser-bodies-`);
  const path = `${dir}/upload`;
  writeFileSync(path, "a file".repeat(400_000));
  after(() => rmSync(dir, { recursive: true }));
  function* pieces() {
    yield Buffer.from("one ");
    yield Buffer.from(text);
  }
  const packaged = (file?: Readable) => {
    const form = new PackageForm();
    form.append("field", text);
    form.append("file", file ?? Buffer.from("upload"), { filename: "name" });
    return form;
  };
  const forms: Record<string, [() => unknown, RegExp]> = {
    "a form of form-data": [packaged, /name="field"\r\n\r\n0123456789(.|\r\n)*upload/],
    "a form of form-data with a file": [() => packaged(createReadStream(path, { start: 0, end: 5 })), /name="file"(.|\r\n)*a file\r\n/],
  };
  const streams: Record<string, [() => unknown, RegExp]> = {
    "a stream": [() => Readable.from(pieces()), /^one 0123456789/],
    "a generator": [pieces, /^one 0123456789/],
    "an asynchronous generator": [() => Readable.from(pieces())[Symbol.asyncIterator](), /^one 0123456789/],
    "a file": [() => createReadStream(path), /^(a file){400000}$/],
  };
  const spec = () => {
    const form = new FormData();
    form.append("field", text);
    form.append("file", new Blob(["upload"]), "name");
    return form;
  };
  const cases: Record<string, [(o: PaymentOptions) => (url: string, body: unknown) => Promise<unknown>, typeof forms]> = {
    got: [
      (options) => (url, body) => wrapGot(got, options).post(url, { body: body as string }),
      { ...forms, ...streams, "a form": [spec, /name="field"(.|\r\n)*upload/] },
    ],
    "undici.request": [
      (options) => async (url, body) => {
        const { body: answer } = await wrapUndici(undici.request, options)(url, { method: "POST", body: body as string });
        return answer.dump();
      },
      { ...forms, ...streams },
    ],
    axios: [
      (options) => {
        const http = axios.create({ proxy: false });
        payWithAxios(http, options);
        return (url, body) => http.post(url, body);
      },
      { ...forms, "a stream": [() => Readable.from(pieces()), /^one 0123456789/] },
    ],
    "node-fetch": [(options) => (url, body) => wrapFetch(clients["node-fetch"], options)(url, { method: "POST", body: body as string }), forms],
  };
  for (const [name, [client, bodies]] of Object.entries(cases)) {
    for (const [what, [make, expected]] of Object.entries(bodies)) {
      it(`${name} sends ${what} again`, async (t) => {
        const purser = await fakePurser(t);
        const shop = await seller(t);
        await client({ apiKey, baseUrl: purser.url, ...quick })(shop.url, make());
        const [first, second] = shop.got;
        assert.match(first?.body ?? "", expected);
        assert.equal(second?.body, first?.body);
        if (what.includes("form")) {
          const boundary = /^--([^\r]+)\r\n/.exec(first?.body ?? "")?.[1];
          for (const got of shop.got) assert.equal(got.headers["content-type"]?.split("boundary=")[1], boundary);
        }
        assert.deepEqual([shop.got.length, purser.pays.length], [2, 1]);
      });
    }

    it(`${name}: a form whose length is not known, or above the limit, is sent and not paid for`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t);
      const post = client({ apiKey, baseUrl: purser.url, ...quick, bodyLimit: 5000 });
      // got itself refuses a form whose length it cannot tell.
      const shy = name === "got" ? [] : [packaged(Readable.from(["upload"]))];
      for (const form of [packaged(), ...shy]) {
        const error = purserErrorOf(await failure(post(shop.url, form)));
        assert.equal(error?.code, "not-replayable");
        assert.match(shop.got.at(-1)?.body ?? "", /upload/);
      }
      assert.deepEqual([shop.got.length, purser.pays.length], [1 + shy.length, 0]);
    });
  }
});

describe("bodies that clients make anew for each request", { concurrency: true }, () => {
  const form = (Form: new () => { append(name: string, value: string): void }, value: string) => {
    const made = new Form();
    made.append("field", value);
    return made as unknown as string;
  };
  const cases: Record<string, (o: PaymentOptions) => (url: string, value: string) => Promise<unknown>> = {
    "a form of form-data, by axios": (options) => {
      const http = axios.create({ proxy: false });
      payWithAxios(http, options);
      return (url, value) => http.post(url, form(PackageForm, value));
    },
    "a form of form-data, by got": (options) => (url, value) => wrapped(options).post(url, { body: form(PackageForm, value) }),
    "a form, by got": (options) => (url, value) => wrapped(options).post(url, { body: form(FormData, value) }),
  };
  const instances = new WeakMap<PaymentOptions, typeof got>();
  const wrapped = (options: PaymentOptions) => {
    const made = instances.get(options) ?? wrapGot(got, options);
    instances.set(options, made);
    return made;
  };
  for (const [name, client] of Object.entries(cases)) {
    it(`${name} is recognized when the program repeats it`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t, cut);
      const post = client({ apiKey, baseUrl: purser.url, ...quick, resends: 0 });
      for (const value of ["one", "two", "one"]) {
        assert.equal(purserErrorOf(await failure(post(shop.url, value)))?.code, "unclear");
      }
      const keys = purser.pays.map((p) => p.idempotencyKey);
      assert.deepEqual([keys.length, new Set(keys).size, keys[2]], [3, 2, keys[0]]);
      assert.notEqual(shop.got[1]?.body, shop.got[5]?.body);
    });
  }
});

describe("clients from packages", { concurrency: true }, () => {
  for (const [name, client] of Object.entries(clients)) {
    it(`${name} pays by header and by body, and survives a lost answer`, async (t) => {
      const purser = await fakePurser(t);
      const fetch = wrapFetch(client, { apiKey, baseUrl: purser.url, ...quick });
      const shop = await seller(t, (req, res, body, n) => (n === 1 ? cut(req, res, body, n) : deliver(req, res, body, n)));
      const answer = await fetch(shop.url, { method: "POST", body: "text" });
      assert.deepEqual(await answer.json(), { report: "sunny", body: "text" });
      const old = await serve(t, (req, res) => {
        if (paid(req)) return json(res, 200, {}, { "X-PAYMENT-RESPONSE": receipt });
        return res.writeHead(402).end(challengeV1());
      });
      assert.equal((await fetch(old.url)).status, 200);
      const other = await serve(t, (_req, res) => json(res, 402, { plan: "gold" }));
      assert.deepEqual(await (await fetch(other.url)).json(), { plan: "gold" });
      assert.equal(purser.pays.length, 2);
      assert.equal(new Set(paymentsOf(shop)).size, 1);
    });

    it(`${name} reads a challenge in a body of 64 KiB`, async (t) => {
      const purser = await fakePurser(t);
      const long = challengeV1("10000", "x".repeat(60_000));
      // Piece by piece, because what arrives at once is not held back.
      const refuse = async (res: ServerResponse, body: string) => {
        res.writeHead(402);
        for (let at = 0; at < body.length; at += 1000) {
          await new Promise((resolve) => res.write(body.slice(at, at + 1000), resolve));
        }
        res.end();
      };
      const old = await serve(t, (req, res) => (paid(req) ? res.end("goods") : refuse(res, long)));
      const other = await serve(t, (_req, res) => refuse(res, `${long.slice(0, -1)}${" ".repeat(10_000)}}`));
      const fetch = wrapFetch(client, { apiKey, baseUrl: purser.url, ...quick });
      assert.equal(await (await fetch(old.url)).text(), "goods");
      assert.match(await (await fetch(other.url)).text(), /x402Version/);
      assert.equal(purser.pays.length, 1);
    });

    it(`${name}: a redirect of a paid answer is followed`, async (t) => {
      const purser = await fakePurser(t);
      const end = await serve(t, (_req, res) => res.end("end"));
      const shop = await seller(t, (_req, res) => res.writeHead(302, { Location: end.url }).end());
      const fetch = wrapFetch(client, { apiKey, baseUrl: purser.url, ...quick, settlement: "payer" });
      assert.equal(await (await fetch(shop.url, { method: "POST", body: "x" })).text(), "end");
      assert(!end.got.some(paid));
    });

    it(`${name}: a stream beyond the limit arrives whole, and is not paid for`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t);
      const fetch = wrapFetch(client, { apiKey, baseUrl: purser.url, ...quick, bodyLimit: 4 });
      const body = Readable.from([Buffer.from("01234"), Buffer.from("56789")]) as unknown as ReadableStream;
      const error = await failure(fetch(shop.url, { method: "POST", body, duplex: "half" } as RequestInit));
      assert.equal(error.code, "not-replayable");
      assert.equal(shop.got[0]?.body, "0123456789");
      assert.equal(purser.pays.length, 0);
    });
  }

  const requests: Record<string, [Fetch, (url: string, init: RequestInit) => Request]> = {
    "node-fetch": [clients["node-fetch"], (url, init) => new NodeRequest(url, init as never) as unknown as Request],
    undici: [clients["fetch of undici"], (url, init) => new undici.Request(url, init as never) as unknown as Request],
    "undici, sent by the runtime's fetch": [fetch, (url, init) => new undici.Request(url, init as never) as unknown as Request],
  };
  for (const [name, [client, make]] of Object.entries(requests)) {
    it(`Request of ${name} is paid for, and knows its settings`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t);
      const fetch = wrapFetch(client, { apiKey, baseUrl: purser.url, ...quick, settlement: "payer" });
      const headers = { "X-Mine": "yes", "Content-Type": "text/x" };
      assert.equal((await fetch(make(shop.url, { method: "PUT", headers, body: "text" }))).status, 200);
      assert.equal((await fetch(make(shop.url, { headers }))).status, 200);
      assert.deepEqual(
        shop.got.map((g) => [g.method, g.body, g.headers["x-mine"], g.headers["content-type"]]),
        [["PUT", "text"], ["PUT", "text"], ["GET", ""], ["GET", ""]].map((sent) => [...sent, "yes", "text/x"]),
      );
      assert.equal(purser.pays.length, 2);
    });
  }

  for (const [name, client, Form] of [
    ["node-fetch", clients["node-fetch"], NodeForm],
    ["undici", clients["fetch of undici"], undici.FormData],
  ] as const) {
    it(`forms of ${name} are told apart, and arrive`, async (t) => {
      const purser = await fakePurser(t);
      const shop = await seller(t, cut);
      const fetch = wrapFetch(client, { apiKey, baseUrl: purser.url, ...quick, resends: 0 });
      for (const value of ["one", "two", "one"]) {
        const form = new Form();
        form.append("field", value);
        const error = await failure(fetch(shop.url, { method: "POST", body: form as unknown as FormData }));
        assert.equal(error.code, "unclear");
        assert(shop.got.at(-1)?.body.includes(value));
      }
      assert.equal(new Set(purser.pays.map((p) => p.idempotencyKey)).size, 2);
    });
  }

  it("whatever fails behind a payment is unclear", async (t) => {
    const purser = await fakePurser(t);
    let n = 0;
    const broken: Fetch = () => {
      if (++n === 1) return Promise.resolve(new Response("{}", { status: 402, headers: { "PAYMENT-REQUIRED": challenge() } }));
      const answer = new Response("goods");
      Object.defineProperty(answer.headers, "get", { value: () => assert.fail("broken") });
      return Promise.resolve(answer);
    };
    const options = { apiKey, baseUrl: purser.url, ...quick };
    const error = await failure(wrapFetch(broken, options)("https://x.example/"));
    assert.equal(error.code, "unclear");
    assert.match(String(error.cause), /broken/);
  });
});
