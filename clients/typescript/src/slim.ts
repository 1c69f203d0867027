// What goes with a payment so that it gets through caches and fronts (BEHAVIOUR.md §4).
import { binaryOf, decodeBase64, encodeBase64, utf8 } from "./base64.js";
import { type HeaderReader, isObject, receiptOf } from "./challenge.js";

const tooLarge = new Set([431, 494]); // 494 is nginx's own
const mayBeTooLarge = new Set([400, 413]);
// What they say that allows a kept answer.
const kept = /^(no-cache|max-age|max-stale|min-fresh|only-if-cached|stale-if-error)\b/i;

/** Reports whether a front has found the header too large. `page` reads the beginning of what it says. */
export async function headerTooLarge(status: number, header: HeaderReader, page: () => Promise<Uint8Array>): Promise<boolean> {
  if (receiptOf(header) !== null || header("PAYMENT-REQUIRED")) return false;
  if (!mayBeTooLarge.has(status)) return tooLarge.has(status);
  const text = binaryOf(await page());
  return /header|cookie/i.test(text) && /too (large|long|big)|exceed/i.test(text);
}

/** The same payment with no more than a seller needs; undefined when that is not less. */
export function slim(signature: string): string | undefined {
  try {
    const { resource, extensions, ...rest } = JSON.parse(utf8(decodeBase64(signature))) as Record<string, unknown>;
    const id = isObject(extensions) ? extensions["payment-identifier"] : undefined;
    const needed = isObject(id) && isObject(id["info"]) && id["info"]["required"];
    if (resource === undefined && (needed || extensions === undefined)) return undefined;
    const payload = needed ? { ...rest, extensions: { "payment-identifier": id } } : rest;
    return encodeBase64(new TextEncoder().encode(JSON.stringify(payload)));
  } catch {
    return undefined;
  }
}

/** Asks caches not to answer, beside what the program says to them. */
export function notCached(given: string | null): string {
  const own = (given ?? "").split(",").map((directive) => directive.trim());
  return ["no-cache", ...own.filter((directive) => directive && !kept.test(directive))].join(", ");
}

/** Reports whether this is a web page: that may have to ask for leave to send headers, and its browser adds these itself. */
export function inPage(): boolean {
  return (globalThis as { location?: { href?: string } }).location?.href !== undefined;
}
