// Finding and reading the challenge of a 402 (BEHAVIOUR.md §1).
import { bytesOfHeader, decodeBase64, encodeBase64, utf8 } from "./base64.js";
import { InvalidChallengeError } from "./errors.js";

export const paymentHeaders = ["PAYMENT-SIGNATURE", "X-PAYMENT"] as const;
export const receiptHeaders = ["PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "Payment-Receipt"] as const;
const challengeHeader = "PAYMENT-REQUIRED";
const proxyHeaders = ["Purser-Declined", "Purser-Payment"];

/** The longest body of a 402 that can be a challenge, in bytes. */
export const maxChallengeBytes = 64 << 10;
/** The time for reading a 402's body, in milliseconds. */
export const maxChallengeTime = 10_000;
const maxHeaderLength = 128 << 10;
const maxCopies = 16;

/** One entry of a challenge that purser could choose. */
export interface Offer {
  readonly network: string;
  readonly scheme: string;
  /** In the asset's smallest unit; whatever the seller wrote, "" when it is no text. */
  readonly amount: string;
  readonly asset: string;
  readonly payTo: string;
}

/** The field of an offer's amount. */
export const amountField = (version: 1 | 2): string => (version === 1 ? "maxAmountRequired" : "amount");

/** The seller's terms in a 402. */
export interface Challenge {
  readonly version: 1 | 2;
  readonly source: "header" | "extra" | "body" | "mpp";
  /** The paymentRequiredHeader for purser. */
  readonly sent: string;
  readonly offers: readonly Offer[];
  /** The seller's word on why it asks, "" if none. */
  readonly error: string;
}

export type HeaderReader = (name: string) => string | null;
type Json = Record<string, unknown>;

/** Finds the challenge in the headers, or undefined. A PAYMENT-REQUIRED that cannot be read is an InvalidChallengeError. */
export function headerChallenge(header: HeaderReader, extra: readonly string[]): Challenge | undefined {
  const value = header(challengeHeader);
  const found = value && readHeader(value, "header");
  if (found) return found;
  for (const name of extra) {
    const value = header(name);
    try {
      const found = value && readHeader(value, "extra");
      if (found) return found;
    } catch {
      continue; // the seller uses that name for something else
    }
  }
  return undefined;
}

/** Finds the challenge in a body, or undefined when it is none of x402. One that cannot be read is an InvalidChallengeError. */
export function bodyChallenge(body: Uint8Array): Challenge | undefined {
  if (!objectStart()(body) || body.length > maxChallengeBytes) return undefined;
  let top: Json; // it begins as an object does
  try {
    top = JSON.parse(utf8(body)) as Json;
  } catch {
    return undefined;
  }
  const terms = unwrapped(top);
  if (has(terms, "x402Version")) return read(terms, "body", encodeBase64(body));
  if (!("x402Version" in top) && /"x402Version\\*" *:/.test(JSON.stringify(top))) throw invalid("its terms are somewhere inside of its body");
  return undefined;
}

/** Makes a function for the pieces of a body in their order: it returns false once they cannot begin a JSON object. */
export function objectStart(): (piece: Uint8Array) => boolean {
  let begun = false;
  return (piece) => {
    if (begun) return true;
    for (const byte of piece) {
      if (byte === 0x7b) return (begun = true);
      if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return false;
    }
    return true;
  };
}

/** Reports whether a request carries a payment of its own. */
export function carriesPayment(header: HeaderReader): boolean {
  const own = [...paymentHeaders, "Payment-Authorization"].some((name) => header(name) !== null);
  return own || /^payment\s+\S/i.test(header("Authorization") ?? "");
}

/** Reports whether a purser on the way has dealt with a 402: it declined to pay, or the seller did not take the payment. */
export function dealtWith(header: HeaderReader): boolean {
  return proxyHeaders.some((name) => header(name) !== null);
}

/** Returns the value of the receipt header, or null. */
export function receiptOf(header: HeaderReader): string | null {
  for (const name of receiptHeaders) {
    const value = header(name);
    if (value) return value;
  }
  return null;
}

/** Returns the errorReason of a receipt, or "" when it has none or cannot be read. */
export function receiptReason(value: string): string {
  try {
    const receipt: unknown = JSON.parse(utf8(decodeHeader(only(value))));
    return isObject(receipt) ? text(receipt["errorReason"]) : "";
  } catch {
    return "";
  }
}

// The members that name a reason, that tell of it, and that other objects with words stand in.
const reasons = /^(errorReason|invalidReason|error|reason|title|code|errorCode|error_code)$/;
const messages = /^(errorMessage|invalidMessage|message|msg|details?|description|error_description)$/;
const around = /^(errors?|details?|data|message|paymentResponse|settleResponse)$/;

/** Returns what a refusal says: the word of its terms, or the words of a body without terms. "" if it says nothing. */
export async function wordsOf(header: HeaderReader, page: () => Promise<Uint8Array>): Promise<string> {
  try {
    const known = headerChallenge(header, []);
    const body = known ? new Uint8Array() : await page();
    const terms = known ?? bodyChallenge(body);
    if (terms) return terms.error;
    const said = utf8(body);
    return words(/^text\/plain\b/.test(String(header("Content-Type"))) && !/^\s*{/.test(said) ? said : JSON.parse(said));
  } catch {
    return "";
  }
}

function words(value: unknown, depth = 0): string {
  const inner: unknown = Array.isArray(value) ? value[0] : value;
  // Some sellers repeat the payment.
  if (!isObject(inner)) return text(inner).replace(/[\s\p{C}]+/gu, " ").replace(/[\w+/=-]{100,}/g, "…").trim().slice(0, 300);
  const first = (names: RegExp, kind: string) =>
    Object.keys(inner)
      .map((name) => (names.test(name) && typeof inner[name] === kind && depth < 4 ? words(inner[name], depth + 1) : ""))
      .find(Boolean);
  return words([...new Set([first(reasons, "string"), first(messages, "string"), first(around, "object")])].filter(Boolean).join(": "));
}

function readHeader(given: string, source: "header" | "extra"): Challenge | undefined {
  let top: unknown;
  let sent: string;
  try {
    const value = only(given);
    if (!value) return undefined;
    sent = value;
    const bytes = decodeHeader(value);
    if (isPlain(value)) sent = encodeBase64(bytes);
    top = JSON.parse(utf8(bytes));
  } catch (cause) {
    throw invalid("its header is neither base64 nor JSON of a challenge", cause);
  }
  if (!isObject(top)) throw invalid("it is not an object");
  const terms = unwrapped(top);
  if ("accepts" in terms || !isBare(terms)) return read(terms, source, sent);
  const version = bareVersion(terms);
  return { version, source, sent, offers: offersOf([terms], version), error: "" };
}

/** Returns the one value of a header: frameworks put it in quotes, and machines on the way join copies of it by commas. */
function only(header: string): string {
  let value = header.trim();
  if (value.length > maxHeaderLength) throw new Error("too long");
  for (let n = maxCopies; n > 1; n--) {
    for (const comma of [",", ", "]) {
      const first = value.slice(0, (value.length + comma.length) / n - comma.length);
      if (value && value === Array(n).fill(first).join(comma)) value = first;
    }
  }
  return value.startsWith('"') ? String(JSON.parse(value)).trim() : value.replace(/^([':])(.*)\1$/, "$2").trim();
}

/** Returns the terms that one object of a framework is around, or the object itself. */
function unwrapped(top: Json): Json {
  const all = "accepts" in top || has(top, "x402Version") ? [] : ["detail", "error", "data", "paymentRequired"].map((name) => top[name]);
  const [first = top, ...more] = all.filter(isObject).filter((inner) => has(inner, "x402Version") && Array.isArray(inner["accepts"]));
  // A guess could pay for something else.
  if (more.some((other) => JSON.stringify(other) !== JSON.stringify(first))) throw invalid("it has several that differ");
  return first;
}

const isPlain = (value: string) => value.startsWith("{") || value.startsWith("[");

function decodeHeader(value: string): Uint8Array {
  const bytes = isPlain(value) ? bytesOfHeader(value) : decodeBase64(value);
  if (bytes.length > maxChallengeBytes) throw new Error("too long");
  return bytes;
}

function read(top: Json, source: Challenge["source"], sent: string): Challenge {
  const accepts = top["accepts"];
  if (!Array.isArray(accepts)) throw invalid("it has no list accepts");
  const entries: unknown[] = accepts;
  let version = top["x402Version"] ?? undefined;
  if (version === undefined && isObject(entries[0])) version = bareVersion(entries[0]);
  if (version !== 1 && version !== 2) throw invalid("its x402Version is not known");
  return { version, source, sent, offers: offersOf(entries, version), error: text(top["error"]) };
}

const has = (top: Json, key: string) => (top[key] ?? null) !== null;

function isBare(top: Json): boolean {
  return has(top, "network") && ["scheme", "payTo", "amount", "maxAmountRequired"].some((key) => has(top, key));
}

function bareVersion(entry: Json): 1 | 2 {
  return "amount" in entry || text(entry["network"]).includes(":") ? 2 : 1;
}

// The USDC of the networks that purser pays on.
const usdcOfBase = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
const usdcOfBaseSepolia = "0x036cbd53842c5426634e7929541ec2318f3dcf7e";
export const payable: ReadonlyMap<string, string> = new Map([
  ["base", usdcOfBase],
  ["eip155:8453", usdcOfBase],
  ["base-sepolia", usdcOfBaseSepolia],
  ["eip155:84532", usdcOfBaseSepolia],
]);

function offersOf(entries: readonly unknown[], version: 1 | 2): Offer[] {
  const offers: Offer[] = [];
  for (const entry of entries) {
    if (!isObject(entry)) continue;
    const network = text(entry["network"]);
    const asset = text(entry["asset"]);
    const usdc = payable.get(network);
    if (usdc === undefined || asset.toLowerCase() !== usdc) continue;
    const amount = text(entry[amountField(version)]);
    offers.push({ network, scheme: text(entry["scheme"]), amount, asset, payTo: text(entry["payTo"]) });
  }
  return offers;
}

/** Reports whether a value is a JSON object: neither null nor a list. */
export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns a string as it is, and "" for everything else. */
export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function invalid(why: string, cause?: unknown): InvalidChallengeError {
  return new InvalidChallengeError(`The seller's payment challenge cannot be read: ${why}.`, { cause });
}
