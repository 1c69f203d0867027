// One shared scenario (BEHAVIOUR.md §10), whoever makes its calls.
import assert from "node:assert/strict";
import { createClient, isPurserError, type PaymentOptions } from "purserpay";
import { vectors } from "./fake.js";
import { relay, type World } from "./world.js";

export interface Expected {
  status?: number;
  json?: Record<string, unknown>;
  body?: string;
  code?: string;
}

export interface Scenario {
  name: string;
  seller: string;
  request: { method: string; path: string; headers: [string, string][]; body?: string; stream?: boolean; moves?: boolean };
  options: Partial<PaymentOptions>;
  fault?: string;
  calls: number;
  expect: Expected & { outcomes?: Expected[]; spent: string; payments: number; header?: string };
}

/** What came of a call: an answer, or an error of ours. */
export interface Outcome {
  status?: number;
  text?: string;
  code?: string;
  message?: string;
}

/** Makes a number of equal calls with one client, one after the other. */
export type Buyer = (url: string, request: Scenario["request"], calls: number) => Promise<Outcome[]>;

export const scenarios = vectors<{ scenarios: Scenario[] }>("scenarios.json").scenarios;

/** A buyer of something that makes one call and throws. */
export function inTurn(call: (url: string, request: Scenario["request"]) => Promise<Outcome>): Buyer {
  return async (url, request, calls) => {
    const outcomes: Outcome[] = [];
    for (let n = 0; n < calls; n++) {
      outcomes.push(
        await call(url, request).catch((error: unknown) => {
          if (!isPurserError(error)) throw error;
          return { code: error.code, message: error.message };
        }),
      );
    }
    return outcomes;
  };
}

/** Runs a scenario, and holds its outcomes, the chain and purser's journal to what is expected. */
export async function runScenario(
  world: World,
  s: Scenario,
  make: (o: PaymentOptions) => Buyer,
  keepAlive = true,
): Promise<void> {
  const atPurser = s.fault?.startsWith("pay-") ?? false;
  const shop = await relay(world.sellers[s.seller] ?? "", atPurser ? "" : s.fault, { keepAlive, moves: s.request.moves ?? false });
  const purser = await relay(world.api, atPurser ? s.fault : "", { keepAlive });
  try {
    const api = createClient({ apiKey: world.key, baseUrl: world.api });
    const buy = make({ apiKey: world.key, baseUrl: purser.url, receiptWait: 5000, ...s.options });
    const balance = await world.balance();
    const payments = (await api.payments.list({ limit: 500 })).length;
    const outcomes = await buy(shop.url + s.request.path, s.request, s.calls);
    assert.equal(outcomes.length, s.calls);
    for (const [n, outcome] of outcomes.entries()) check(outcome, s.expect.outcomes?.[n] ?? s.expect);
    assert.equal(String(balance - (await world.balance())), s.expect.spent, "what left the wallet");
    assert.equal((await api.payments.list({ limit: 500 })).length - payments, s.expect.payments, "payments journaled");
    if (s.expect.header) assert.deepEqual([...new Set(shop.payments.map((p) => p.name))], [s.expect.header]);
    assert(new Set(shop.payments.map((p) => p.value)).size <= s.expect.payments, "no payment is signed anew");
  } finally {
    shop.close();
    purser.close();
  }
}

function check(got: Outcome, want: Expected): void {
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
