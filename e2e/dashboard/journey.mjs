// The whole journey of somebody who uses the dashboard, from the first sign-in to the last sign-out.

import { readFileSync } from "node:fs";
import { base, check, clean, errand, logIn, main, newVisitor, parseCSV, picture, say, signIn, until } from "./browser.mjs";

const text = (page, selector) => page.locator(selector).innerText();

async function open(page, name) {
  const link = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true });
  await Promise.all([page.waitForURL(`${base}${await link.getAttribute("href")}`), link.click()]);
}

/** Loads a wallet's page anew, which asks for the balance once: while the chain is slow it is unknown. */
async function balanceIs(page, balance) {
  await page.reload();
  await page.locator("#balance .balance").waitFor();
  return balance.test((await text(page, "#balance .balance")).trim());
}

/** What GET /v1/spend says of a key. */
async function books(key) {
  const res = await fetch(`${base}/v1/spend?limit=500`, { headers: { "X-Api-Key": key } });
  check(res.ok, `GET /v1/spend: ${res.status}`);
  return (await res.json()).events;
}

/** Exact dollars of a number of millionths. */
const dollars = (units) => `${BigInt(units) / 1000000n}.${String(BigInt(units) % 1000000n).padStart(6, "0")}`;
const same = (a, b) => Number(a) === Number(b);
const second = (time) => Math.floor(Date.parse(time) / 1000);

await main(async () => {
  const ada = await newVisitor({ permissions: ["clipboard-read", "clipboard-write"] });
  const page = await ada.context.newPage();

  say("the first sign-in makes an organization with a key");
  await signIn(page, "ada");
  check(page.url() === `${base}/dashboard/`, `signed in, at ${page.url()}`);
  check((await page.locator("h1").innerText()) === "Overview", "no overview");
  check(await page.getByText("Three steps to the first payment").isVisible(), "the empty overview does not say what to do");
  check(await page.getByText("ada@example.com").isVisible(), "the address that the provider tells is not shown");
  const cookie = (await ada.context.cookies()).find((c) => c.name === "purser");
  check(cookie?.httpOnly && cookie.sameSite === "Lax", `the session's cookie is ${JSON.stringify(cookie)}`);
  await open(page, "API keys");
  const rows = page.locator("tbody tr");
  check((await rows.count()) === 1, "there is not exactly one key at first");

  say("a key is made and shown once");
  await page.getByLabel("Label").fill("research <b>agent</b>");
  await page.getByLabel("Pays from").selectOption("none"); // the wallet is made below
  await page.getByRole("button", { name: "Create key" }).click();
  await page.waitForURL(/keys\/[0-9a-f-]{36}$/);
  const created = page.url();
  const secret = await text(page, "#secret");
  check(/^pk_/.test(secret), `a key ${secret.slice(0, 3)}…`);
  await page.getByRole("button", { name: "Copy the key" }).click();
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === secret, "the key was not copied");
  check((await text(page, "h1")) === "research <b>agent</b>", "the label is not shown as it is");
  await page.reload();
  check((await page.locator("#secret").count()) === 0, "the key is shown a second time");

  say("a wallet is made, with an address and a code to scan");
  await page.getByRole("link", { name: "Create one" }).click();
  check((await page.locator("#key option:checked").innerText()) === "research <b>agent</b>", "the wallet is for another key");
  await page.getByRole("button", { name: "Create wallet" }).click();
  await page.waitForURL(/wallets\/[0-9a-f-]{36}$/);
  const walletPage = page.url();
  await until(() => balanceIs(page, /^0(\.0+)? USDC$/), "no balance of zero");
  check(await page.getByRole("img", { name: "QR code of the address" }).isVisible(), "no code");
  const address = (await page.locator(".fund code").innerText()).trim();
  check(/^0x[0-9a-fA-F]{40}$/.test(address), `an address ${address}`);
  await page.locator(".fund button[data-copy]").click();
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === address, "the address was not copied");

  say("money that arrives is seen");
  await errand("fund", { address, dollars: 7 });
  await until(() => balanceIs(page, /^7(\.0+)? USDC$/), "the wallet never has its 7 USDC");

  say("a key that was made through the API is linked");
  const agent = await errand("newKey", { label: "the agent's own" });
  await open(page, "API keys");
  await page.getByLabel("API key", { exact: true }).fill("pk_nobody_has_this_one");
  await page.getByRole("button", { name: "Link key" }).click();
  await page.getByText("No key with this value exists here").waitFor();
  ada.expected.add(`${base}/dashboard/keys/link`); // its status is 422
  ada.problems.splice(0, ada.problems.length, ...ada.problems.filter((p) => !/keys\/link/.test(p) || !/status of 422/.test(p)));
  await page.getByLabel("API key", { exact: true }).fill(agent.key);
  await page.getByRole("button", { name: "Link key" }).click();
  await page.waitForURL(/keys\/[0-9a-f-]{36}$/);
  const linked = page.url().split("/").at(-1);
  check(await page.getByText("Key linked.").isVisible(), "nobody says that it was linked");
  check((await text(page, "h1")) === "the agent's own", "it has another label");

  say("what it pays for appears by itself");
  await open(page, "Overview");
  const url = await errand("buy", { key: agent.key, task: "nightly" });
  const host = new URL(url).host;
  await page.locator("#feed .feed li").filter({ hasText: "nightly" }).waitFor();
  await page.locator("svg.chart").waitFor(); // in the place of the first steps
  await until(async () => /^0\.01 USDC/.test((await text(page, "#spent-today .big")).trim()), "spent today is not 0.01");
  const bar = page.locator("svg.chart rect.bar").first();
  if ((await bar.count()) === 0) await page.reload(); // the chart is drawn once, maybe while the payment was open
  await bar.waitFor();

  say("and the next ones without loading the page again");
  await page.evaluate(() => { window.__here = true; });
  let navigations = 0;
  page.on("framenavigated", () => { navigations++; });
  await errand("settle", { key: agent.key });
  await until(async () => (await page.locator("#feed .feed li").count()) === 2, "a second payment is not shown");
  check(/New payment/.test(await page.locator("#status").textContent()), "nobody tells those who do not see it");
  await errand("buy", { key: agent.key, task: "weekly" });
  await until(async () => (await page.locator("#feed .feed li").count()) === 3, "three payments are not shown");
  await until(async () => /^0\.03 USDC/.test((await text(page, "#spent-today .big")).trim()), "spent today is not 0.03");
  check(await page.evaluate(() => window.__here) && navigations === 0, "the page was loaded again");
  await until(async () => (await page.locator("#feed .feed .state", { hasText: /^Settled$/ }).count()) === 3, "they are not shown as settled");

  say("spend is filtered");
  await open(page, "Spend");
  check((await rows.count()) === 3, "three events are not listed");
  await page.getByLabel("Task", { exact: true }).fill("weekly");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/task=weekly/);
  check((await rows.count()) === 1 && (await rows.innerText()).includes(host.split(":")[0]), "the filter by task does not filter");
  await page.getByRole("link", { name: "Clear" }).click();
  await page.getByLabel("Key", { exact: true }).selectOption(linked);
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/key=/);
  check((await rows.count()) === 3, "the filter by key does not filter");
  await page.getByRole("link", { name: "Clear" }).click();
  await page.getByLabel("From").fill("2020-01-01");
  await page.getByLabel("To", { exact: true }).fill("2020-01-31");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/from=2020-01-01/);
  check(await page.getByText("Nothing matches the filter").isVisible(), "events of 2020 are found");
  await page.getByRole("link", { name: "Clear" }).click();

  say("the export is what the API says");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Export as CSV" }).click()]);
  check(/^purser-spend-\d{4}-\d\d-\d\d\.csv$/.test(download.suggestedFilename()), `a file ${download.suggestedFilename()}`);
  const lines = parseCSV(readFileSync(await download.path(), "utf8"));
  const events = await books(agent.key);
  check(lines.length === 3 && events.length === 3, `${lines.length} lines of ${events.length} events`);
  for (const [i, event] of events.entries()) {
    const line = lines[i]; // both newest first
    check(line.id === event.id && line.request_url === event.request_url && line.currency === event.currency && second(line.created_at) === second(event.created_at),
      () => `${JSON.stringify(line)} is not ${JSON.stringify(event)}`);
    check(same(line.amount, dollars(event.amount)), `${line.amount} is not ${event.amount} millionths`);
    check(line.key_id === linked && /^0x[0-9a-f]{64}$/.test(line.transaction), `a line ${JSON.stringify(line)}`);
  }

  say("a payment has a page");
  await page.locator("tbody tr").first().locator("th a").click();
  await page.waitForURL(/payments\/[0-9a-f-]{36}$/);
  check((await text(page, "h1")).startsWith("0.01"), "another amount");

  say("a key is revealed only after signing in anew");
  await page.goto(created);
  await page.getByRole("button", { name: "Reveal key" }).click();
  await page.getByPlaceholder("Enter any login").waitFor(); // the provider asks, although its own session is alive
  await logIn(page, "ada");
  check(page.url() === created, `back at ${page.url()}`);
  check((await page.locator("#secret").count()) === 0, "it is shown without asking for it");
  await page.getByRole("button", { name: "Reveal key" }).click();
  await page.locator("#secret").waitFor();
  check((await text(page, "#secret")) === secret, "another key is revealed");

  say("the key is paused, resumed and revoked, and that is written down");
  await page.getByRole("button", { name: "Pause key" }).click();
  await page.getByText("Key paused.").waitFor();
  await page.getByRole("button", { name: "Resume key" }).click();
  await page.getByText("Key resumed.").waitFor();
  await page.getByRole("link", { name: "Revoke key" }).click();
  await page.getByRole("heading", { name: "Revoke this key?" }).waitFor();
  await picture(page, "journey-revoke");
  await page.getByRole("link", { name: "Keep it" }).click();
  await page.getByRole("link", { name: "Revoke key" }).click();
  await page.getByRole("button", { name: "Revoke key" }).click();
  await page.getByText("Key revoked.").waitFor();
  await picture(page, "journey-revoked");
  const refused = await fetch(`${base}/v1/spend`, { headers: { "X-Api-Key": secret } });
  check(refused.status === 401, `a revoked key gets a ${refused.status}`);

  say("settings tell the plan, and what was changed");
  await open(page, "Settings");
  await page.getByRole("link", { name: "What was changed, and by whom" }).click();
  await page.getByRole("heading", { name: "Changes" }).waitFor();
  for (const change of ["Key revoked", "Key paused", "Key linked", "Wallet created", "Key created"]) {
    check((await page.locator("tbody").innerText()).includes(change), `no "${change}"`);
  }
  await picture(page, "journey-audit");
  await open(page, "Settings");
  for (const fact of ["ada@example.com", "Free", "Payments in"]) {
    check((await page.locator("main").innerText()).includes(fact), `nothing about ${fact}`);
  }
  check((await page.getByRole("link", { name: "Change the plan" }).getAttribute("href")) === "https://plans.example.com/", "no way to a larger plan");

  say("signing out ends the session; the back button shows nothing");
  await page.goto(walletPage);
  await page.getByRole("banner").getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/sign-in\?out=here/);
  check(await page.getByText("You are signed out").isVisible(), "nobody says so");
  await page.goBack({ waitUntil: "load" });
  check(new URL(page.url()).pathname === "/dashboard/sign-in", `going back leads to ${page.url()}`);
  check(!(await page.content()).includes(address), "the wallet is still there to see");
  const stale = await fetch(walletPage, { headers: { Cookie: `purser=${cookie.value}` }, redirect: "manual" });
  check(stale.status === 303 && stale.headers.get("location").startsWith("/dashboard/sign-in"), `the old session gets a ${stale.status}`);

  say("signing in again leads back");
  await page.getByRole("link", { name: "Sign in" }).click();
  await page.waitForURL(walletPage);

  say("signing out everywhere ends other browsers' sessions");
  const phone = await newVisitor({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
  const other = await phone.context.newPage();
  await signIn(other, "ada");
  check(await other.locator("#feed .feed li").first().isVisible(), "the other browser does not show the payments");
  await open(page, "Settings");
  await page.getByRole("button", { name: "Sign out everywhere" }).click();
  await page.waitForURL(/sign-in\?out=everywhere/);
  phone.expected.add(`${base}/dashboard/live`);
  await other.waitForURL(/sign-in\?out=/); // the overview that is open over there finds out by itself
  check((await other.locator("#feed").count()) === 0, "payments are still to be seen over there");
  phone.problems = phone.problems.filter((p) => !/dashboard\/live\?.*|status of 401/.test(p)); // how it found out
  check((await (await other.goto(created)).text()).includes("You are signed out"), "a page over there opens");

  say("somebody else sees nothing of it");
  const bob = await newVisitor();
  const his = await bob.context.newPage();
  await signIn(his, "bob");
  check(!(await his.content()).includes("weekly"), "another organization's payments");
  bob.expected.add(created);
  const foreign = await his.goto(created);
  check(foreign.status() === 404, `another organization's key: ${foreign.status()}`);

  for (const visitor of [ada, phone, bob]) clean(visitor);
});
