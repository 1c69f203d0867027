// Takes the pictures of README and docs: pages as an operator sees them, in light and in dark, as WebP of at most 150 kB.
// Environment beside browser.mjs's: LINKS, one link that signs in for each look; SHOTS, the pages as JSON.

import { writeFileSync } from "node:fs";
import path from "node:path";

import { base, check, clean, main, newVisitor, say } from "./browser.mjs";

const most = 150_000; // bytes
const shots = JSON.parse(process.env.SHOTS), links = JSON.parse(process.env.LINKS);

await main(async () => {
  for (const [i, colorScheme] of ["light", "dark"].entries()) {
    const visitor = await newVisitor({ colorScheme, deviceScaleFactor: 1 });
    const desk = await visitor.context.newPage();
    await desk.goto(links[i]);
    await Promise.all([desk.waitForURL(`${base}/dashboard/`), desk.locator("#link-button:focus").press("Enter")]);
    const phone = await newVisitor({ colorScheme, isMobile: true, storageState: await visitor.context.storageState() });
    const small = await phone.context.newPage();
    for (const { name, path: at, width, height } of shots) {
      const page = width < 500 ? small : desk;
      await page.setViewportSize({ width, height });
      await page.goto(base + at);
      if (at === "/dashboard/") await page.locator("#figures .amount").first().waitFor(); // a balance may come later
      const devtools = await page.context().newCDPSession(page);
      const { data } = await devtools.send("Page.captureScreenshot", { format: "webp", quality: 82 });
      await devtools.detach();
      const picture = Buffer.from(data, "base64");
      check(picture.length <= most, `${name} has ${picture.length} bytes`);
      writeFileSync(path.join(process.env.FOLDER, `${name}-${colorScheme}.webp`), picture);
      say(`${name}-${colorScheme}: ${picture.length} bytes`);
    }
    for (const one of [visitor, phone]) clean(one, colorScheme);
  }
});
