// The packed package in an empty folder: ten lines buy from the official sellers, in Node and in a browser.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { startWorld, type World } from "./world.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const browser = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

const tenLines = (imported: string) => `${imported}
const purser = createClient({ baseUrl: process.env.PURSER_URL, apiKey: process.env.PURSER_KEY, maxAmount: "50000", receiptWait: 20_000 });
(async () => {
  for (const url of process.argv.slice(2)) {
    const answer = await purser.get(url);
    const { report } = await answer.json();
    console.log(answer.status, report, paymentOf(answer).state);
  }
})();
`;

describe("the packed package", () => {
  let dir: string;
  let world: World;
  let pages: http.Server;
  let origin: string;
  let shops: http.Server[];

  before(async () => {
    dir = mkdtempSync(`${tmpdir()}/purser-client-`);
    const npm = (...args: string[]) => execFileSync("npm", args, { cwd: dir, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    writeFileSync(`${dir}/package.json`, "{}");
    const [packed] = JSON.parse(npm("pack", "--json", "--ignore-scripts", root)) as { filename: string; files: { path: string }[] }[];
    assert(packed);
    assert.deepEqual(
      [...new Set(packed.files.map((f) => f.path.split("/")[0]))].sort(),
      ["CHANGELOG.md", "LICENSE", "README.md", "dist", "package.json"],
    );
    npm("install", "--offline", "--no-audit", "--no-fund", `./${packed.filename}`);
    pages = http.createServer((req, res) => {
      if (req.url === "/") return res.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html>");
      const file = `${dir}/node_modules${req.url}`;
      if (!existsSync(file) || req.url?.includes("..")) return res.writeHead(404).end();
      return res.writeHead(200, { "Content-Type": "text/javascript" }).end(readFileSync(file));
    });
    origin = await listen(pages);
    world = await startWorld({ PURSER_ALLOWED_ORIGINS: origin });
    shops = [];
  });
  after(() => {
    world.close();
    for (const server of [pages, ...shops]) {
      server.close();
      server.closeAllConnections();
    }
    rmSync(dir, { recursive: true });
  });

  const kinds = [
    ["an ES module", "esm.mjs", 'import { createClient, paymentOf } from "purserpay";'],
    ["CommonJS", "cjs.cjs", 'const { createClient, paymentOf } = require("purserpay");'],
  ] as const;
  for (const [name, file, imported] of kinds) {
    it(`buys from the official sellers in Node, ${name}`, async () => {
      writeFileSync(`${dir}/${file}`, tenLines(imported));
      const env = { ...process.env, PURSER_URL: world.api, PURSER_KEY: world.key };
      const urls = ["official-v1", "official-v2"].map((s) => `${world.sellers[s]}/paid`);
      const before = await world.balance();
      const out = execFileSync(process.execPath, [file, ...urls], { cwd: dir, env, encoding: "utf8", timeout: 60_000 });
      assert.equal(out, "200 sunny settled\n200 sunny settled\n");
      assert.equal(before - (await world.balance()), 20_000n);
    });
  }

  it("can be required with its axios part", () => {
    const script = 'console.log(typeof require("purserpay/axios").payWithAxios, typeof require("purserpay/package.json"))';
    assert.equal(execFileSync(process.execPath, ["-e", script], { cwd: dir, encoding: "utf8" }), "function object\n");
  });

  const missing = existsSync(browser) || process.env["CI"] === "true" ? false : `${browser} is not there; CHROMIUM names another browser`;
  it("buys from the official sellers in Chromium", { skip: missing, timeout: 120_000 }, async () => {
    const urls: string[] = [];
    for (const name of ["official-v1", "official-v2"]) {
      const shop = cors(world.sellers[name] ?? "", origin);
      shops.push(shop);
      urls.push(`${await listen(shop)}/paid`);
    }
    const chrome = await chromium.launch({ executablePath: browser, args: ["--no-sandbox"], timeout: 60_000 });
    try {
      const page = await chrome.newPage();
      await page.goto(origin, { timeout: 60_000 });
      const before = await world.balance();
      const results = await page.evaluate(
        async ([urls, baseUrl, apiKey]) => {
          const module = "/purserpay/dist/esm/index.js";
          const { createClient, paymentOf } = (await import(module)) as typeof import("purserpay");
          const purser = createClient({ baseUrl, apiKey, maxAmount: "50000", receiptWait: 20_000 });
          const results: unknown[] = [];
          for (const url of urls) {
            const answer = await purser.get(url);
            results.push([answer.status, ((await answer.json()) as { report: string }).report, paymentOf(answer)?.state]);
          }
          const wallets = await purser.wallets.list();
          results.push(wallets.length);
          return results;
        },
        [urls, world.api, world.key] as const,
      );
      assert.deepEqual(results, [[200, "sunny", "settled"], [200, "sunny", "settled"], 1]);
      assert.equal(before - (await world.balance()), 20_000n);
    } finally {
      await chrome.close();
    }
  });
});

async function listen(server: http.Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What a seller does so that pages of an origin may buy from it. */
function cors(to: string, origin: string): http.Server {
  return http.createServer((req, res) => {
    res.setHeader("Access-Control-Allow-Origin", origin);
    res.setHeader("Access-Control-Expose-Headers", "PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE");
    if (req.method === "OPTIONS") {
      res.writeHead(204, { "Access-Control-Allow-Headers": "PAYMENT-SIGNATURE, X-PAYMENT, Content-Type" }).end();
      return;
    }
    // The middleware of version 1 shows browsers a page instead of the challenge.
    const headers = { ...req.headers, "user-agent": "a page" };
    const asked = http.request(to + (req.url ?? ""), { method: req.method ?? "GET", headers }, (answer) => {
      for (const [name, value] of Object.entries(answer.headers)) if (value !== undefined) res.setHeader(name, value);
      res.writeHead(answer.statusCode ?? 500);
      answer.pipe(res);
    });
    req.pipe(asked);
  });
}
