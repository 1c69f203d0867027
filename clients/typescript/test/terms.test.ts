// Asking before paying, and what a decline tells, against a purser that is real.
import assert from "node:assert/strict";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { after, before, describe, it } from "node:test";
import { createClient, DeclinedError, DryRunError, paymentOf, RefusedByCallerError, usdc } from "purserpay";
import { cap } from "../dist/esm/options.js";
import { startWorld, type World } from "./world.js";

describe("asking first", () => {
  let world: World;
  before(async () => {
    world = await startWorld();
  });
  after(() => {
    world.close();
  });

  it("quotes, caps and books what one request says", async () => {
    const client = createClient({ apiKey: world.key, baseUrl: world.api, maxAmount: "0.05 USDC", task: "reports" });
    const url = `${world.sellers["official-v2"]}/paid`;
    await assert.rejects(client.get(url, { dryRun: true }), (error) => {
      assert.ok(error instanceof DryRunError);
      assert.equal(error.quote.price, "0.01 USDC");
      assert.equal(error.quote.amount, "10000");
      assert.equal(error.message, `dry run: 0.01 USDC on base to ${error.quote.payTo} would be paid. (${new URL(url).host})`);
      return true;
    });
    await assert.rejects(client.get(url, { maxAmount: "0.009 USDC" }), (error) => {
      assert.ok(error instanceof RefusedByCallerError);
      assert.match(error.message, /maxAmount is 9000 \(0\.009 USDC\)/);
      return true;
    });
    assert.equal((await client.payments.list()).length, 0);
    const info = paymentOf(await client.get(url, { maxAmount: 10_000n, task: "extra" }));
    assert.equal(info?.amount, "10000");
    assert.equal(info.task, "extra");
    assert.equal(info.host, new URL(url).host);
    assert.deepEqual(
      (await client.payments.list()).map((payment) => payment.task),
      ["extra"],
    );
  });

  it("tells of a purchase that would be repeated, and heeds the smaller cap", async () => {
    const client = createClient({ apiKey: world.key, baseUrl: world.api, maxAmount: 9_000n });
    const free = createClient({ apiKey: world.key, baseUrl: world.api });
    const url = `${world.sellers["official-v2"]}/paid?again`;
    await assert.rejects(client.get(url, { maxAmount: "1 USDC" }), RefusedByCallerError);
    const { signal } = new AbortController();
    const id = paymentOf(await free.get(url, { maxAmount: "1 USDC", idempotencyKey: "order-1" }))?.id;
    await assert.rejects(free.get(url, { dryRun: true, idempotencyKey: "order-1", signal }), (error) => {
      assert.ok(error instanceof DryRunError);
      assert.equal(error.message, `dry run: payment ${id} of 0.01 USDC would be repeated, and nothing new paid. (${new URL(url).host})`);
      return true;
    });
  });

  it("does not pay more than a quote has just named", async () => {
    const asked = await fetch(`${world.sellers["official-v2"]}/paid`);
    const terms = JSON.parse(atob(asked.headers.get("PAYMENT-REQUIRED") ?? "")) as { accepts: { amount: string }[] };
    let price = 10_000;
    const server = http.createServer((_req, res) => {
      const accepts = terms.accepts.map((entry) => ({ ...entry, amount: String(price) }));
      res.writeHead(402, { "PAYMENT-REQUIRED": btoa(JSON.stringify({ ...terms, accepts })) }).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const client = createClient({ apiKey: world.key, baseUrl: world.api });
    const url = `http://127.0.0.1:${port}/paid`;
    await assert.rejects(client.get(url, { dryRun: true }), DryRunError);
    price = 20_000;
    await assert.rejects(client.get(url), (error) => {
      assert.ok(error instanceof DeclinedError);
      assert.equal(error.rule, "max-amount");
      return true;
    });
    server.close();
    server.closeAllConnections();
  });

  it("tells limits, quotes and why not", async () => {
    const client = createClient({ apiKey: world.key, baseUrl: world.api });
    const refused = await fetch(`${world.sellers["official-v2"]}/paid`);
    const paymentRequiredHeader = refused.headers.get("PAYMENT-REQUIRED") ?? "";
    const quote = await client.quote({ paymentRequiredHeader, task: "t", maxAmount: "0.01 USDC" });
    assert.equal(quote.amount, "10000");
    assert.ok(quote.wallet?.address);
    const limits = await client.limits({ door: "proxy" });
    assert.equal(limits.door, "proxy");
    assert.equal(limits.pays, true);
    for (const ask of [client.quote, client.pay]) {
      await assert.rejects(ask({ paymentRequiredHeader, maxAmount: 9_000n }), (error) => {
        assert.ok(error instanceof DeclinedError);
        assert.equal(error.reason, "max-amount");
        assert.equal(error.price, "0.01 USDC");
        assert.equal(error.limit, "0.009 USDC");
        assert.match(inspect(error), /DeclinedError: .*0\.01 USDC is above the limit of 0\.009 USDC/);
        return true;
      });
    }
  });
});

describe("amounts", () => {
  it("are smallest units, or USDC with the unit", () => {
    for (const [given, want] of [
      [5n, 5n],
      ["50000", 50_000n],
      ["0.05 USDC", 50_000n],
      ["1 USDC", 1_000_000n],
      ["0.000001 USDC", 1n],
    ] as const) {
      assert.equal(cap(given), want);
    }
    for (const wrong of ["0.05", "1.0000001 USDC", "-1 USDC", "1 usdc", " 1 USDC", "", -1n, 0.05, 5, null]) {
      assert.throws(() => cap(wrong), /0\.05 USDC/);
    }
    for (const [amount, want] of [
      ["10000", "0.01"],
      ["1", "0.000001"],
      ["100000000", "100.00"],
      ["-15000", "-0.015"],
    ] as const) {
      assert.equal(usdc(amount), want);
    }
  });
});
