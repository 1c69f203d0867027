// What the scripts share: a browser that is watched, errands that the test runs, axe, pictures.
// Environment: CHROMIUM, CONTROL (where errands are run), PICTURES (a folder), TAKE (pictures of every page, not only of a
// failure), BASE (purser).

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

export const base = process.env.BASE;
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** No page may transfer more, with everything that it loads. */
export const budget = 150_000; // bytes

export const patience = 60_000; // milliseconds

export const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--disable-gpu", "--disable-dev-shm-usage"],
  // Pages that come back with the back button are part of what is tested.
  ignoreDefaultArgs: ["--disable-back-forward-cache"],
});

/** Asks the test to do something, such as sending money. */
export async function errand(name, args = {}) {
  const res = await fetch(`${process.env.CONTROL}/${name}`, { method: "POST", body: JSON.stringify(args) });
  if (!res.ok) throw new Error(`${name}: ${await res.text()}`);
  return (await res.json()).result;
}

export const say = (...words) => console.log(words.join(" "));

export function check(ok, problem) {
  if (!ok) throw new Error(typeof problem === "function" ? problem() : problem);
}

/** Asks until the answer is true. */
export async function until(ask, problem, limit = patience) {
  const end = Date.now() + limit;
  while (!(await ask())) {
    check(Date.now() < end, problem);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const contexts = new Set();

/**
 * Somebody's browser: a context with its own cookies, in which everything is an error that a page of purser must not do:
 * asking other hosts, breaking its content security policy, failing scripts, messages on the console.
 */
export async function newVisitor(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(patience);
  contexts.add(context);
  const visitor = { context, problems: [], expected: new Set() };
  const ours = (page) => page.url().includes("/dashboard"); // and not the provider's
  await context.exposeBinding("__violated", (_source, what) => visitor.problems.push(`content security policy: ${what}`));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) => {
      if (!window.__judging) window.__violated(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`);
    });
  });
  // The identity provider's own form asks for a font of somebody else's.
  await context.route((url) => !["127.0.0.1", "localhost"].includes(url.hostname), (route) => {
    if (ours(route.request().frame().page())) visitor.problems.push(`asked for ${route.request().url()}`);
    return route.abort();
  });
  context.on("request", (request) => {
    const page = request.frame().page();
    if (ours(page) && !request.isNavigationRequest() && !request.url().startsWith(`${new URL(page.url()).origin}/dashboard/`)) {
      visitor.problems.push(`${page.url()} asked for ${request.url()}`);
    }
  });
  context.on("console", (message) => {
    const page = message.page();
    if (!page || !ours(page) || !["error", "warning"].includes(message.type())) return;
    if (visitor.expected.has(message.location().url) && /the server responded with a status/.test(message.text())) return;
    visitor.problems.push(`console of ${page.url()}: ${message.text()} (${message.location().url})`);
  });
  context.on("weberror", (e) => visitor.problems.push(`script: ${e.error()}`));
  return visitor;
}

export function clean(visitor, where = "") {
  check(visitor.problems.length === 0, () => `${where}\n${visitor.problems.join("\n")}`);
}

/** Fills in the identity provider's form. */
export async function logIn(page, name) {
  await page.getByPlaceholder("Enter any login").fill(name);
  await page.getByPlaceholder("and password").fill("any");
  await Promise.all([page.waitForURL((url) => url.href.startsWith(base)), page.getByRole("button", { name: "Sign-in" }).click()]);
}

export async function signIn(page, name) {
  await page.goto(`${base}/dashboard/`);
  await logIn(page, name);
}

/** Signs in once more, as some pages ask for. */
export async function signInAgain(page, name) {
  await page.goto(`${base}/dashboard/sign-in?again=1`);
  await logIn(page, name);
}

/** What a page and everything that it loads transfer, with an empty cache. */
export async function weigh(page, load) {
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  let bytes = 0, requests = 0;
  session.on("Network.loadingFinished", (e) => { bytes += e.encodedDataLength; requests++; });
  await load();
  await new Promise((resolve) => setTimeout(resolve, 50)); // the last events
  await session.send("Network.setCacheDisabled", { cacheDisabled: false });
  await session.detach();
  return { bytes, requests };
}

/** Findings of axe-core on a page: those that nobody may leave, and the others. */
export async function judge(page) {
  await page.evaluate(() => { window.__judging = true; });
  await page.evaluate(axeSource);
  const { violations, passes } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  check(passes.length > 10, `axe-core has looked at ${passes.length} rules only`);
  await page.evaluate(() => { window.__judging = false; });
  const list = violations.map((v) => ({
    bad: ["serious", "critical"].includes(v.impact),
    text: `${v.impact} ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.target.join(" ")} (${n.failureSummary?.split("\n").slice(1, 3).join(";").trim()})`).join(" | ")}`,
  }));
  return { bad: list.filter((v) => v.bad).map((v) => v.text), others: list.filter((v) => !v.bad).map((v) => v.text) };
}

/** Things in a page that its policy forbids or that do not fit into its window. */
export function faults(page) {
  return page.evaluate(() => {
    const found = [];
    for (const e of document.querySelectorAll("style, [style], script:not([src])")) found.push(`inline ${e.outerHTML.slice(0, 120)}`);
    for (const e of document.querySelectorAll("*")) {
      for (const a of e.attributes) if (a.name.startsWith("on")) found.push(`inline ${a.name} of ${e.tagName}`);
    }
    // An amount and its unit stand on one line, and nothing is cut off where nobody can scroll to it.
    for (const e of document.querySelectorAll(".amount, .budget .nowrap")) {
      if (new Set([...e.getClientRects()].map((r) => Math.round(r.top))).size > 1) found.push(`wraps: ${e.outerHTML.slice(0, 100)}`);
    }
    for (const e of document.querySelectorAll(".figure, .figure .big, .scroll-x, .table-wrap, .sums, .balance")) {
      if (e.checkVisibility() && e.scrollWidth > e.clientWidth + 1) found.push(`${e.scrollWidth} wide in ${e.clientWidth}: ${e.outerHTML.slice(0, 100)}`);
    }
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) {
      const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > clientWidth + 1).slice(0, 3);
      found.push(`${scrollWidth} wide in a window of ${clientWidth}: ${wide.map((e) => e.outerHTML.slice(0, 100)).join(" | ")}`);
    }
    return found;
  });
}

const folder = process.env.PICTURES;
mkdirSync(folder, { recursive: true });

/** Takes a picture of a page, down to where it only goes on like this, if pictures are asked for. */
export async function picture(page, name, asked = process.env.TAKE) {
  if (!asked) return;
  const { width, height } = await page.evaluate(() => ({ width: document.documentElement.clientWidth, height: document.documentElement.scrollHeight }));
  await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true, animations: "disabled", clip: { x: 0, y: 0, width, height: Math.min(height, 2000) } });
}

/** Runs a script's body; what goes wrong is told with a picture of every page. */
export async function main(body) {
  try {
    await body();
    await browser.close();
  } catch (err) {
    console.error(err.stack);
    let n = 0;
    for (const context of contexts) {
      for (const page of context.pages()) {
        console.error(`open: ${page.url()}`);
        await picture(page, `failed-${++n}`, true).catch(() => {});
      }
    }
    console.error(`pictures of what was open are in ${folder}`);
    await browser.close().catch(() => {});
    process.exit(1);
  }
}

/** The values of a CSV file, by the names in its first line (RFC 4180). */
export function parseCSV(text) {
  const rows = [[]];
  let cell = "", quoted = false, begun = false;
  const end = () => { rows.at(-1).push(cell); cell = ""; begun = false; };
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') { cell += c; i++; } else quoted = false;
    } else if (c === '"' && !begun) { quoted = begun = true; } else if (c === ",") end();
    else if (c === "\n") { end(); rows.push([]); } else if (c !== "\r") { cell += c; begun = true; }
  }
  check(!quoted && rows.at(-1).length === 0 && cell === "", "the CSV file ends in the middle");
  rows.pop();
  const [head, ...lines] = rows;
  return lines.map((line) => {
    check(line.length === head.length, `a line of ${line.length} cells below ${head.length} names`);
    return Object.fromEntries(head.map((name, i) => [name, line[i]]));
  });
}
