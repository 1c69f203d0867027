// A person answers payments that wait, with the keyboard alone: one is approved, one denied, and one answered by another
// person while its page is open.

import { base, check, clean, errand, faults, judge, main, newVisitor, picture, say, signIn, signInAgain, until } from "./browser.mjs";

const text = (page, selector) => page.locator(selector).innerText();

/** Presses Tab until the element has the focus. */
async function tabTo(page, selector) {
  await page.locator(selector).first().waitFor();
  for (let n = 0; n < 120; n++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((s) => document.activeElement?.matches(s), selector)) return;
  }
  throw new Error(`the keyboard does not get to ${selector} on ${page.url()}`);
}

/** Tabs to an element and presses Enter, which leads to another page. */
async function press(page, selector, url) {
  await tabTo(page, selector);
  await Promise.all([page.waitForURL(url), page.keyboard.press("Enter")]);
}

async function sound(page, name) {
  for (const fault of await faults(page)) throw new Error(`${name}: ${fault}`);
  const { bad } = await judge(page);
  check(bad.length === 0, () => `${name}: ${bad.join("\n")}`);
  await picture(page, name);
}

const list = `${base}/dashboard/approvals`;
const one = /\/dashboard\/approvals\/[0-9a-f-]{36}$/;

await main(async () => {
  const ada = await newVisitor();
  const page = await ada.context.newPage();
  await signIn(page, "ada");
  await signInAgain(page, "ada");
  const before = BigInt(await errand("balance"));

  say("a request appears on the page by itself");
  await press(page, ".nav a[href='/dashboard/approvals']", list);
  check(await page.getByText("No payment waits.").first().isVisible(), "the empty page does not say that nothing waits");
  const payTo = await errand("ask", { path: "/weather" });
  await page.locator("#waiting th a").waitFor();
  check(/^1\b/.test(await text(page, "#waiting-count")), "the menu does not count it");
  check(/A payment waits for approval: 0\.01 USDC/.test(await page.locator("#status").textContent()), "those who do not see the page are not told");
  await sound(page, "approvals-waiting");

  say("its page has the exact terms");
  await press(page, "#waiting th a", one);
  const terms = await text(page, "main");
  for (const part of ["Pay 0.01 USDC?", "/weather", payTo, "base", "research agent", "nightly", "approval-above", "It expires in"]) {
    check(terms.includes(part), `${part} is not on the page: ${terms}`);
  }
  await sound(page, "approval");
  check(BigInt(await errand("balance")) === before, "money moved without an answer");

  say("approved, the agent gets its bytes, and one transfer is made");
  await press(page, "#approve", list);
  check(/Payment approved/.test(await text(page, ".note")), "the page does not say that it was approved");
  const paid = await errand("answer", { path: "/weather" });
  check(paid.status === 200 && paid.payment !== "" && paid.body.length > 0, () => `the agent got ${JSON.stringify(paid)}`);
  await until(async () => before - BigInt(await errand("balance")) === 10_000n, "it is not one payment of 0.01 USDC");
  await page.reload();
  check(/Used/.test(await text(page, "tbody tr")), "the approval is not used");
  check(await page.locator("#waiting-count").isHidden(), "the menu counts an answered one");

  say("denied, the agent reads the reason");
  await errand("ask", { path: "/weather?other" });
  await page.locator("#waiting th a").waitFor();
  await press(page, "#waiting th a", one);
  await tabTo(page, "#reason");
  await page.keyboard.type("ask the free one");
  await press(page, "#deny", list);
  const denied = await errand("answer", { path: "/weather?other" });
  check(denied.status === 402 && denied.declined === "approval-denied" && denied.body.includes("ask the free one"), () => `the agent got ${JSON.stringify(denied)}`);
  check(one.test(`/dashboard/approvals/${denied.approval}`), () => `it is not told of its approval: ${JSON.stringify(denied)}`);

  say("a page that is open sees that another person has answered");
  await errand("ask", { path: "/weather?third" });
  await page.locator("#waiting th a").waitFor();
  await press(page, "#waiting th a", one);
  await tabTo(page, "#approve");
  await errand("deny", { id: page.url().split("/").at(-1) });
  await page.getByText("the operator was faster").waitFor();
  check((await page.locator("#approve").count()) === 0, "an answered payment can be approved");
  await sound(page, "approval-denied");
  const third = await errand("answer", { path: "/weather?third" });
  check(third.status === 402 && third.body.includes("the operator was faster"), () => `the agent got ${JSON.stringify(third)}`);
  check(before - BigInt(await errand("balance")) === 10_000n, "more than one payment was made");

  say("the link of the notice needs no sign-in, and answers this payment");
  await errand("ask", { path: "/weather?link" });
  await page.goto(list);
  await page.locator("#waiting th a").waitFor();
  const link = await errand("link", { id: (await page.locator("#waiting th a").getAttribute("href")).split("/").at(-1) });
  const token = link.split("#")[1];
  const stranger = await newVisitor({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
  const asked = [];
  stranger.context.on("request", (r) => asked.push(`${r.url()} ${JSON.stringify(r.headers())}`));
  const other = await stranger.context.newPage();
  await other.goto(link);
  await other.locator("#approve").waitFor();
  check(!other.url().includes(token), "the token stays in the address bar");
  check((await text(other, "main")).includes("/weather?link"), "the link does not show what is paid for");
  await sound(other, "approval-link");
  await tabTo(other, "#approve");
  await other.keyboard.press("Enter");
  await other.getByText("with the link of a notice").waitFor();
  const linked = await errand("answer", { path: "/weather?link" });
  check(linked.status === 200 && linked.payment !== "", () => `the agent got ${JSON.stringify(linked)}`);
  check(!asked.some((r) => r.includes(token)), "the token is in an address or a header");
  await until(async () => before - BigInt(await errand("balance")) === 20_000n, "it is not one more payment");
  await other.goto(link);
  await other.getByText("nothing more to answer").waitFor();
  clean(stranger, "with the link");

  say("and on a phone");
  const phone = await newVisitor({ colorScheme: "dark", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
  const small = await phone.context.newPage();
  await signIn(small, "ada");
  await errand("ask", { path: "/weather?phone" });
  await small.goto(list);
  await small.locator("#waiting th a").waitFor();
  const inSight = (selector) => small.locator(selector).first().evaluate((e) => {
    const { top, bottom } = e.getBoundingClientRect();
    return scrollY === 0 && top >= 0 && bottom <= innerHeight;
  });
  check(await inSight("#waiting th a"), "what waits is not on the first screen");
  await sound(small, "approvals-phone");
  await small.locator("#waiting th a").tap();
  await small.waitForURL(one);
  check(await inSight("#approve"), "approving needs scrolling");
  await sound(small, "approval-phone");
  await errand("deny", { id: small.url().split("/").at(-1) });
  await errand("answer", { path: "/weather?phone" });
  clean(phone, "on the phone");
  clean(ada);
});
