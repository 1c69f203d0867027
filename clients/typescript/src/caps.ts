// The program's own checks of a challenge (BEHAVIOUR.md §2). They happen before purser is asked, but for the check of the
// payment that purser signed.
import { amountField, type Challenge } from "./challenge.js";
import { InvalidChallengeError, RefusedByCallerError } from "./errors.js";
import { signedTerms } from "./mpp.js";
import { bareUrl, parseAmount, type Settings, usdc } from "./options.js";
import { orAborted } from "./time.js";

/** Reports whether the program limits its payments. */
const guarded = (s: Settings) => s.maxAmount !== undefined || s.budget !== undefined || s.beforePayment !== undefined;

/** Returns the largest amount that a challenge asks for. */
export function largestOf(challenge: Challenge): bigint {
  return challenge.offers.reduce((largest, { amount }) => {
    const asked = parseAmount(amount) ?? 0n;
    return asked > largest ? asked : largest;
  }, 0n);
}

/** Throws when a cap refuses, or when the signal fires meanwhile. */
export async function checkCaps(
  s: Settings,
  url: URL,
  method: string,
  challenge: Challenge,
  signal: AbortSignal | undefined,
): Promise<void> {
  checkHost(s, url);
  if (!guarded(s)) return;
  const { offers } = challenge;
  const first = offers[0];
  if (!first) {
    throw new InvalidChallengeError("The seller asks for nothing whose price this client can tell, and there is a cap on it.");
  }
  for (const offer of offers) {
    const amount = parseAmount(offer.amount);
    if (s.maxAmount !== undefined && (amount === undefined || amount > s.maxAmount)) {
      throw new RefusedByCallerError(`The seller asks for ${shown(offer.amount, challenge)}, maxAmount is ${s.maxAmount} (${usdc(s.maxAmount)} USDC).`, "amount");
    }
    if (s.budget !== undefined && amount === undefined) {
      throw new RefusedByCallerError(`The seller asks for ${shown(offer.amount, challenge)}, and there is a budget.`, "budget");
    }
  }
  const { beforePayment } = s;
  if (!beforePayment) return;
  const info = { url: bareUrl(url), host: url.host, method, offers, amount: largestOf(challenge).toString(), payTo: first.payTo };
  let verdict: unknown;
  try {
    const asked = (async () => beforePayment(info))();
    verdict = await (signal ? orAborted(asked, signal) : asked);
  } catch (cause) {
    signal?.throwIfAborted();
    throw new RefusedByCallerError("beforePayment refused the payment.", "callback", { cause });
  }
  if (verdict === true) return;
  // A callback that forgets to return must not pay.
  const wrong = verdict === false ? undefined : new TypeError(`beforePayment returned ${named(verdict)}, and only true allows a payment`);
  throw new RefusedByCallerError("beforePayment refused the payment.", "callback", wrong && { cause: wrong });
}

/** Names what a callback returned, without what an object holds. */
function named(value: unknown): string {
  return typeof value === "object" && value !== null ? "an object" : typeof value === "string" ? "a string" : String(value);
}

/** Reports whether a signature pays for one of the offers that the caps have seen. True when there are no caps. */
export function signedAsOffered(s: Settings, challenge: Challenge, signature: string): boolean {
  if (!guarded(s)) return true;
  const signed = signedTerms(signature);
  return (
    signed !== undefined &&
    challenge.offers.some((o) => o.amount === signed.value && o.payTo.toLowerCase() === signed.to.toLowerCase())
  );
}

function checkHost(s: Settings, url: URL): void {
  const named = s.allowHosts?.some((pattern) => pattern !== "*" && fits(pattern, url)) ?? false;
  if (url.protocol !== "https:" && !named && !isLoopback(bare(url.hostname))) {
    throw new RefusedByCallerError(`${url.host} is not paid over plain http unless allowHosts names it.`, "plain-http");
  }
  if (s.allowHosts && !named && !s.allowHosts.includes("*")) {
    throw new RefusedByCallerError(`${url.host} is not in allowHosts.`, "host");
  }
}

function fits(pattern: string, url: URL): boolean {
  const [, name = "", port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(pattern.toLowerCase()) ?? [];
  if (port !== undefined && port !== (url.port || (url.protocol === "https:" ? "443" : "80"))) return false;
  const host = bare(url.hostname);
  if (!name.startsWith("*.")) return host === bare(name);
  const end = bare(name.slice(1));
  return end.length > 1 && host.endsWith(end);
}

const bare = (host: string) => host.replace(/\.$/, "");

function isLoopback(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || /^127(?:\.\d+){3}$/.test(host);
}

// An amount is the seller's text: short enough for a message, or the beginning of it.
const shown = (amount: string, { version }: Challenge) =>
  parseAmount(amount) === undefined ? `${amountField(version)} ${JSON.stringify(amount).slice(0, 40)}, which is no whole number` : amount;
