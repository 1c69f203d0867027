// The scenarios that both languages run, against purser-sandbox and the official sellers.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { payWithAxios } from "@purser/client/axios";
import { createClient, isPurserError, type PaymentOptions } from "@purser/client";
import axios from "axios";
import { Readable } from "node:stream";
import { vectors } from "./fake.js";
import { relay, startWorld, type World } from "./world.js";

interface Outcome {
  status?: number;
  json?: Record<string, unknown>;
  body?: string;
  code?: string;
}

interface Scenario {
  name: string;
  seller: string;
  request: { method: string; path: string; headers: [string, string][]; body?: string; stream?: boolean };
  options: Partial<PaymentOptions>;
  fault?: string;
  calls: number;
  expect: Outcome & { outcomes?: Outcome[]; spent: string; payments: number; header?: string };
}

/** Makes a call and returns status and text. */
type Caller = (url: string, request: Scenario["request"]) => Promise<{ status: number; text: string }>;

const callers: Record<string, (o: PaymentOptions) => Caller> = {
  fetch: (options) => {
    const client = createClient(options);
    return async (url, { method, headers, body, stream }) => {
      const init: RequestInit & { duplex?: "half" } = { headers };
      if (body !== undefined) init.body = stream ? new Blob([body]).stream() : body;
      if (stream) init.duplex = "half";
      const answer = await client.request(method, url, init);
      return { status: answer.status, text: await answer.text() };
    };
  },
  axios: (options) => {
    const instance = axios.create({ proxy: false, responseType: "text", validateStatus: () => true });
    payWithAxios(instance, options);
    return async (url, { method, headers, body, stream }) => {
      const data = stream && body !== undefined ? Readable.from([Buffer.from(body)]) : body;
      const config = { url, method, headers: Object.fromEntries(headers), data };
      const answer = await instance.request<string>(config);
      return { status: answer.status, text: answer.data };
    };
  },
};

for (const [by, make] of Object.entries(callers)) {
  describe(`scenarios with ${by}`, () => {
    let world: World;
    before(async () => {
      world = await startWorld();
    });
    after(() => {
      world.close();
    });
    for (const s of vectors<{ scenarios: Scenario[] }>("scenarios.json").scenarios) {
      it(s.name, { timeout: 120_000 }, async () => {
        await run(world, s, make);
      });
    }
  });
}

async function run(world: World, s: Scenario, make: (o: PaymentOptions) => Caller): Promise<void> {
  const atPurser = s.fault?.startsWith("pay-") ?? false;
  const shop = await relay(world.sellers[s.seller] ?? "", atPurser ? "" : s.fault);
  const purser = await relay(world.api, atPurser ? s.fault : "");
  try {
    const api = createClient({ apiKey: world.key, baseUrl: world.api });
    const call = make({ apiKey: world.key, baseUrl: purser.url, receiptWait: 5000, ...s.options });
    const balance = await world.balance();
    const payments = (await api.payments.list({ limit: 500 })).length;
    for (let n = 0; n < s.calls; n++) {
      const outcome = await call(shop.url + s.request.path, s.request).catch((error: unknown) => {
        if (!isPurserError(error)) throw error;
        return { code: error.code, message: error.message };
      });
      check(outcome, s.expect.outcomes?.[n] ?? s.expect);
    }
    assert.equal(String(balance - (await world.balance())), s.expect.spent, "what left the wallet");
    assert.equal((await api.payments.list({ limit: 500 })).length - payments, s.expect.payments, "payments journaled");
    if (s.expect.header) assert.deepEqual([...new Set(shop.payments.map((p) => p.name))], [s.expect.header]);
    assert(new Set(shop.payments.map((p) => p.value)).size <= s.expect.payments, "no payment is signed anew");
  } finally {
    shop.close();
    purser.close();
  }
}

function check(got: { status?: number; text?: string; code?: string; message?: string }, want: Outcome): void {
  if (want.code !== undefined) {
    assert.equal(got.code, want.code, got.message ?? got.text ?? "");
    return;
  }
  assert.equal(got.status, want.status, got.message ?? got.text ?? "");
  if (want.body !== undefined) assert.equal(got.text, want.body);
  if (want.json) {
    const members = JSON.parse(got.text ?? "") as Record<string, unknown>;
    for (const [name, value] of Object.entries(want.json)) assert.deepEqual(members[name], value, name);
  }
}
