// What an operator does with a key and its money, by keyboard alone: a key with limits, a limit that is tried on the
// payments so far, pause, resume and reissue, and a withdrawal. Environment beside browser.mjs's: LINK, of `purser dashboard`.

import { base, check, clean, errand, faults, judge, main, newVisitor, picture, say, until } from "./browser.mjs";

const home = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

await main(async () => {
  const visitor = await newVisitor();
  const page = await visitor.context.newPage();
  const text = (selector) => page.locator(selector).innerText();

  /** Goes to an element with the tab key. */
  const tabTo = async (selector) => {
    await page.locator(selector).first().waitFor();
    for (let i = 0; i < 150; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate((s) => document.activeElement.matches(s), selector)) return;
    }
    throw new Error(`the keyboard does not get to ${selector} of ${page.url()}`);
  };
  const press = async (selector, where) => {
    await tabTo(selector);
    await Promise.all([page.waitForURL(where), page.keyboard.press("Enter")]);
  };
  const type = async (selector, value) => {
    await tabTo(selector);
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type(value);
  };
  /** What axe-core and the page's own policy say, on a desk and on a phone. Pictures come last, because they mark fields. */
  const look = async (name) => {
    for (const work of [
      async (of) => {
        const { bad } = await judge(page);
        for (const fault of [...(await faults(page)), ...bad]) check(false, `${name}, ${of}: ${fault}`);
      },
      (of) => picture(page, `${of}-${name}`),
    ]) {
      for (const [size, width, height] of [["desk", 1280, 860], ["phone", 390, 844]]) {
        for (const colorScheme of ["light", "dark"]) {
          await page.setViewportSize({ width, height });
          await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
          await work(`${size}-${colorScheme}`);
        }
      }
    }
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  };

  say("a link signs the operator in");
  await page.goto(process.env.LINK);
  await page.locator("#link-button:focus").waitFor(); // the page leads there
  await Promise.all([page.waitForURL(`${base}/dashboard/`), page.keyboard.press("Enter")]);

  say("everything is paused and resumed");
  await press("#all", /dashboard\/pause$/);
  await look("pause");
  await type("#reason", "a leaked key");
  await press("#pause-all", `${base}/dashboard/`);
  await page.getByText("Everything is paused.").waitFor();
  await look("paused");
  await press("#all", /dashboard\/pause$/);
  await look("resume");
  await press("#resume-all", `${base}/dashboard/`);
  await page.getByText("Everything is resumed.").waitFor();

  say("a key is made with a limit and a wallet of its own");
  await press('.nav a[href="/dashboard/keys"]', /dashboard\/keys$/);
  await type("#label", "by keyboard");
  await tabTo("#wallet");
  await page.keyboard.type("a new");
  await tabTo("details > summary");
  await page.keyboard.press("Enter");
  await type("#in-max_payment", "0.05");
  await page.keyboard.press("Enter"); // sends the form
  await page.waitForURL(/keys\/[0-9a-f-]{36}$/);
  const keyPage = page.url(), secret = await text("#secret");
  check((await text("main")).includes("at most 0.05 USDC"), "the limit is not shown");
  await press('.facts a[href^="/dashboard/wallets/"]', /wallets\/[0-9a-f-]{36}$/);
  const walletPage = page.url(), address = (await text("#address")).trim();
  await errand("fund", { address, dollars: 5 });
  for (const task of ["nightly", "weekly"]) await errand("buy", { key: secret, task });

  say("a limit is tried on what was paid so far, and saved");
  await page.goto(keyPage);
  await press("#limits", /\/limits$/);
  await type("#in-max_payment", "0.005");
  await tabTo("#review");
  await page.keyboard.press("Enter");
  await page.locator("#whatif").waitFor();
  check(/would have declined 2 payments, 0\.02 USDC/.test(await text("#whatif")), await text("#whatif"));
  await press("#save", keyPage);
  await page.getByText("Limits saved.").waitFor();
  check((await text("main")).includes("at most 0.005 USDC"), "the limit is not saved");
  const declined = await errand("try", { key: secret });
  check(declined === "per-payment", `a payment above the limit: ${declined}`);

  say("the key is paused with a reason, and resumed");
  await type("#reason", "month's end");
  await page.keyboard.press("Enter");
  await page.getByText("Key paused.").waitFor();
  check((await text("main")).includes("month's end"), "the reason is not shown");
  check((await errand("try", { key: secret })) === "paused", "a paused key pays");
  await press("#resume", keyPage);
  await page.getByText("Key resumed.").waitFor();

  say("the key is reissued");
  await press("#reissue", /\/reissue$/);
  await press("main form button", keyPage);
  const second = await text("#secret");
  check(/^pk_/.test(second) && second !== secret, "the secret is the same");

  say("deposits are those of the chain, when somebody asks");
  await page.goto(walletPage);
  await tabTo("#ask-deposits");
  await page.keyboard.press("Enter");
  await page.locator("#deposits tbody tr").waitFor();
  check((await page.locator("#deposits tbody tr").count()) === 1 && /5\s*USDC/.test(await text("#deposits tbody")), await text("#deposits"));
  await type("#fund", "12.5");
  await Promise.all([page.waitForURL(/fund=12\.5/), page.keyboard.press("Enter")]);
  check((await text("#request")).endsWith("&uint256=12500000"), await text("#request"));
  await look("wallet-fund");

  say("money is withdrawn, once");
  await page.goto(walletPage);
  await press("#withdraw", /\/withdraw$/);
  await look("withdraw");
  await type("#to", home.slice(0, 41) + "e"); // the last letter is of another case
  await type("#amount", "4");
  visitor.expected.add(page.url()); // its status is 422
  await page.keyboard.press("Enter");
  await page.locator("#to-wrong").waitFor();
  check((await text("#to-wrong")).includes("checksum"), await text("#to-wrong"));
  await look("withdraw-wrong");
  await type("#to", home);
  await tabTo("#review");
  await page.keyboard.press("Enter");
  await page.locator("#send").waitFor();
  check((await errand("balance", { address: home })) === "0", "a review moves money");
  await look("withdraw-review");
  await tabTo("#send");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter"); // twice: the second answer takes the place of the first
  await until(async () => page.url().includes("/withdrawn?payment="), "no result");
  const result = page.url();
  check((await text("h1")) === "The money has moved", await text("h1"));
  check(/^0x[0-9a-f]{64}\b/.test((await text("#transaction")).trim()), await text("#transaction"));
  await until(async () => { await page.reload(); return /^0\.98 USDC/.test((await text("#holds")).trim()); }, "the wallet does not hold 0.98 USDC");
  await look("withdrawn");
  await page.goBack({ waitUntil: "load" }); // the review is ordered again
  await page.getByText("has moved this amount to this address already").waitFor();
  check((await page.locator("#send").count()) === 0, "there is a button for a second time");
  await press(".note a", result);
  check((await errand("balance", { address: home })) === "4000000", `the address has ${await errand("balance", { address: home })}`);

  say("and that is written down");
  await page.goto(`${base}/dashboard/audit`);
  for (const change of ["Money withdrawn", "Key reissued", "Key resumed", "Key paused", "Limits set", "Wallet created", "Key created"]) {
    check((await text("tbody")).includes(change), `no "${change}"`);
  }
  check((await text("tbody")).includes("on the dashboard"), "by whom is not told");
  await page.goto(`${base}/dashboard/wallets`);
  await page.locator("td[data-label=Balance] [hx-get] > :not(a)").first().waitFor();
  check(/0\.98\s*USDC/.test(await text("td[data-label=Balance]")) && (await text("td[data-label=Balance]")).includes("low balance"), await text("td[data-label=Balance]"));
  await look("wallets-spent");
  clean(visitor);
});
