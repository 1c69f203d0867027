// Every page on a desk and on a phone, in light and in dark: what axe-core says of it, what it transfers, whether it keeps
// its own policy and fits its window; and a picture for people to look at. Then the keyboard alone.
// Environment beside browser.mjs's: VISIT, the pages as JSON; EMPTY, of somebody with nothing; NOTICES, of strangers.

import { base, budget, check, clean, faults, judge, main, newVisitor, picture, say, signIn, signInAgain, weigh } from "./browser.mjs";

/** The pages that windows of odd sizes are tried with. */
const only = ["overview", "spend", "settings", "wallet", "key", "payments", "declined", "approvals"];

const looks = [
  { name: "desk-light", options: { colorScheme: "light" }, start: true },
  { name: "desk-dark", options: { colorScheme: "dark", timezoneId: "Asia/Kolkata" } },
  { name: "phone-light", options: { colorScheme: "light", timezoneId: "America/St_Johns", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true } },
  { name: "phone-dark", options: { colorScheme: "dark", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }, start: true },
  { name: "tablet-light", options: { colorScheme: "light", timezoneId: "Pacific/Auckland", viewport: { width: 768, height: 1024 } } },
  { name: "tablet-dark", options: { colorScheme: "dark", viewport: { width: 768, height: 1024 } }, only },
  { name: "small-light", options: { colorScheme: "light", viewport: { width: 320, height: 640 }, isMobile: true, hasTouch: true }, only },
  { name: "wide-dark", options: { colorScheme: "dark", viewport: { width: 2200, height: 1200 } }, only },
];

const wrong = new Set();
const moderate = new Set();
const weights = new Map();

/** Waits for what loads by itself, some of it when it is seen. */
async function complete(page) {
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await page.waitForFunction(() => !document.querySelector("[hx-trigger=load] a, [hx-trigger=revealed] a"));
  await page.evaluate(() => scrollTo(0, 0));
}

/** Times of a day without the reader's own beside them, where it is another one. */
function foreign(page) {
  return page.evaluate(() => [...document.querySelectorAll("time[datetime]")]
    .filter((e) => /\d:\d\d/.test(e.textContent) && new Date(e.dateTime).getTimezoneOffset() !== 0 && !e.nextElementSibling?.matches(".local"))
    .map((e) => e.outerHTML));
}

async function look(visitor, page, look, name, path, status = 200) {
  visitor.expected.add(new URL(path, base).href);
  let res;
  const load = async () => {
    res = await page.goto(new URL(path, base).href);
    await complete(page);
  };
  const { bytes, requests } = await weigh(page, load);
  if (res.status() !== status) wrong.add(`${name}: ${path} is a ${res.status()}, want ${status}`);
  weights.set(name, { bytes: Math.max(bytes, weights.get(name)?.bytes ?? 0), requests });
  if (bytes > budget) wrong.add(`${name}: ${bytes} bytes are transferred, ${budget} are allowed`);
  for (const fault of await faults(page)) wrong.add(`${name}, ${look}: ${fault}`);
  for (const time of await foreign(page)) wrong.add(`${name}, ${look}: no local time beside ${time}`);
  const { bad, others } = await judge(page);
  for (const finding of bad) wrong.add(`${name}, ${look}: ${finding}`);
  for (const finding of others) moderate.add(`${name}: ${finding}`);
  await page.evaluate(() => scrollTo(0, 0));
  await picture(page, `${look}-${name}`);
}

const visit = JSON.parse(process.env.VISIT), empty = JSON.parse(process.env.EMPTY), notices = JSON.parse(process.env.NOTICES);

/** What somebody who is signed in can do with the keyboard alone. */
async function keyboard() {
  const visitor = await newVisitor();
  let page = await visitor.context.newPage();
  await signIn(page, "ada");
  await signInAgain(page, "ada");
  for (const [name, path] of Object.entries(visit)) {
    visitor.expected.add(new URL(path, base).href);
    await page.goto(new URL(path, base).href);
    await complete(page);
    await page.keyboard.press("Tab");
    const first = await page.evaluate(() => {
      const e = document.activeElement, box = e.getBoundingClientRect();
      return { skips: e.matches(".skip"), seen: box.top >= 0 && box.left >= 0 && box.width > 20 && getComputedStyle(e).opacity !== "0" };
    });
    check(first.skips && first.seen, `${name}: the first thing to reach is not a visible way to the content`);
    // All that can be reached, in order, until it begins again.
    const missed = await page.evaluate(() => {
      window.__want = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
        .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && e.type !== "hidden");
      window.__met = new Set();
      return window.__want.length;
    });
    for (let i = 0; i < missed * 3 + 20; i++) { // a date has three parts
      const state = await page.evaluate(() => {
        const e = document.activeElement;
        if (!e || e === document.body) return { over: true };
        if (window.__met.size > 1 && e === [...window.__met][0]) return { over: true };
        const style = getComputedStyle(e), box = e.getBoundingClientRect();
        const state = {
          html: e.outerHTML.slice(0, 90),
          // The button in a field for a day is marked by the browser.
          marked: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1) || (e.type === "date" && !e.matches(":focus-visible") && window.__met.has(e)),
          seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        };
        window.__met.add(e);
        return state;
      });
      if (state.over) break;
      if (!state.marked) wrong.add(`${name}: nothing shows where the keyboard is: ${state.html}`);
      if (!state.seen) wrong.add(`${name}: the keyboard is where nobody sees it: ${state.html}`);
      await page.keyboard.press("Tab");
    }
    for (const html of await page.evaluate(() => window.__want.filter((e) => e.isConnected && !window.__met.has(e)).map((e) => e.outerHTML.slice(0, 90)))) {
      wrong.add(`${name}: the keyboard does not reach ${html}`);
    }
  }
  clean(visitor, "by keyboard");

  say("the chart is read day by day, by keyboard");
  await page.goto(`${base}/dashboard/?by=host`);
  await page.locator("[data-chart]").focus();
  const readOut = () => page.locator("#read-out").innerText();
  const last = await readOut();
  await page.keyboard.press("ArrowLeft");
  const before = await readOut();
  await page.keyboard.press("Home");
  const first = await readOut();
  check(/: .* USDC, \d+ payments?; /.test(before) && new Set([last, before, first]).size === 3, `the chart tells of ${last} | ${before} | ${first}`);
  check((await page.locator("[data-chart] g.on").count()) === 1, "nothing marks the day that is told of");
  clean(visitor, "at the chart");

  say("a key is made, and somebody signs out, by keyboard alone");
  const kay = await newVisitor();
  page = await kay.context.newPage();
  await signIn(page, "kay");
  const tabTo = async (what, selector) => {
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate((s) => document.activeElement.matches(s), selector)) return;
    }
    throw new Error(`the keyboard does not get to ${what}`);
  };
  await tabTo("the page of keys", '.nav a[href="/dashboard/keys"]');
  await Promise.all([page.waitForURL(/dashboard\/keys$/), page.keyboard.press("Enter")]);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter"); // skips to the content
  await tabTo("the label", "#label");
  await page.keyboard.type("by keyboard");
  await Promise.all([page.waitForURL(/keys\/[0-9a-f-]{36}$/), page.keyboard.press("Enter")]);
  check((await page.locator("h1").innerText()) === "by keyboard", "no key of that name");
  await tabTo("the button that copies", "button[data-copy=secret]");
  await page.keyboard.press("Enter");
  await page.locator("button[data-copy=secret]", { hasText: /Copied|Selected/ }).waitFor();
  await tabTo("signing out", 'form[action="/dashboard/sign-out"] button');
  await Promise.all([page.waitForURL(/sign-in\?out=here/), page.keyboard.press("Enter")]);
  await tabTo("signing in again", "a.button.primary");
  await Promise.all([page.waitForURL((u) => u.pathname === "/dashboard/" || !u.href.startsWith(base)), page.keyboard.press("Enter")]);
  clean(kay, "by keyboard");
}

/** All pages with one look. */
async function appear({ name, options, only, start }) {
  const ada = await newVisitor(options);
  const page = await ada.context.newPage();
  for (const [notice, [path, status]] of Object.entries(only ? {} : notices)) await look(ada, page, name, notice, path, status);
  await signIn(page, "ada");
  await signInAgain(page, "ada");
  for (const [what, path] of Object.entries(visit)) {
    if (!only || only.includes(what)) await look(ada, page, name, what, path, what === "nothing" ? 404 : what.endsWith("-wrong") ? 422 : 200);
  }
  clean(ada, name);
  await ada.context.close();
  if (start) {
    const eve = await newVisitor(options);
    const hers = await eve.context.newPage();
    await signIn(hers, "eve");
    for (const [what, path] of Object.entries(empty)) await look(eve, hers, name, `empty-${what}`, path);
    clean(eve, name);
    await eve.context.close();
  }
}

await main(async () => {
  await Promise.all([...looks.map(appear), keyboard()]);
  for (const [name, { bytes, requests }] of weights) say(`${String(bytes).padStart(8)} bytes in ${requests} requests: ${name}`);
  for (const finding of moderate) say(`axe, not required: ${finding}`);
  check(wrong.size === 0, () => [...wrong].join("\n"));
});
