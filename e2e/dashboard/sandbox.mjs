// What somebody sees who starts the sandbox and opens the address that it prints. Environment: BASE, OPEN.

import { check, clean, faults, judge, main, newVisitor, picture, say, until } from "./browser.mjs";

await main(async () => {
  const visitor = await newVisitor();
  const page = await visitor.context.newPage();
  await page.goto(process.env.OPEN);
  say("one click");
  await Promise.all([page.waitForURL(process.env.OPEN), page.getByRole("button", { name: "Sign in" }).click()]);

  say("a chart of real payments");
  check((await page.locator("svg.chart rect.bar").count()) >= 1, "no bar in the chart");
  const paid = await page.locator("#feed .feed li").count();
  check(paid >= 3, `${paid} payments`);
  check((await page.locator("section[aria-labelledby=hosts] tbody tr").count()) >= 1, "no host");
  check((await page.locator("section[aria-labelledby=tasks] tbody tr").count()) >= 2, "no tasks");
  check(/^0\.0[1-9]/.test(await page.locator("#spent-today .big").innerText()), "nothing was spent today");
  check(await page.getByText("play money").first().isVisible(), "nobody says that it is play money");
  for (const fault of await faults(page)) check(false, fault);
  const { bad } = await judge(page);
  check(bad.length === 0, bad.join("\n"));
  await picture(page, "sandbox-overview");

  say("a key");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "API keys" }).click();
  await page.waitForURL(/keys$/);
  const keys = await page.locator("tbody tr").count();
  check(keys >= 1, "no key");
  await picture(page, "sandbox-keys");

  say("a funded wallet");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Wallets" }).click();
  await page.waitForURL(/wallets$/);
  await until(async () => { // a page asks for balances once: while the chain is slow they are unknown
    await page.reload();
    await page.locator("td[data-label=Balance] [hx-get] > :not(a)").first().waitFor();
    return (await page.locator("td[data-label=Balance] .amount").count()) > 0;
  }, "no balance");
  check(Number((await page.locator("td[data-label=Balance] .amount").first().innerText()).replace(/[^0-9.]/g, "")) >= 1, "an empty wallet");
  await picture(page, "sandbox-wallets");
  clean(visitor);
});
