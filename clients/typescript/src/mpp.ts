// MPP, as far as a client needs it that does not sign: its challenges, and whose they are (BEHAVIOUR.md §1, §2).
import { decodeBase64, utf8 } from "./base64.js";
import { type Challenge, type HeaderReader, isObject, type Offer, payable, text } from "./challenge.js";
import { RefusedByCallerError } from "./errors.js";

/** The request headers in which a credential goes. */
export const credentialHeaders = ["Authorization", "Payment-Authorization"] as const;

const tempo = "eip155:4217";

/** A challenge as it came, and its parameters with names in lower case. */
interface Asked {
  readonly sent: string;
  readonly of: ReadonlyMap<string, string>;
}

/** Returns the challenges of the scheme Payment. */
export function asked(header: HeaderReader): Asked[] {
  const all: string[][] = [];
  // By commas outside of quotes.
  for (const part of (header("WWW-Authenticate") ?? "").match(/(?:[^",]|"(?:[^"\\]|\\.)*\\?(?:"|$))+/g) ?? []) {
    if (/^\s*[^\s="]+\s*=/.test(part)) all.at(-1)?.push(part);
    else all.push([part]);
  }
  return all
    .filter(([first = ""]) => /^\s*payment\s/i.test(first))
    .map((parts) => ({ sent: parts.join(",").trim(), of: new Map(parts.flatMap(parameter)) }));
}

function parameter(part: string): [string, string][] {
  const [, name, quoted, bare = ""] = /^\s*(?:payment\s+)?([\w-]+)\s*=\s*(?:"(.*)"|(\S*))\s*$/i.exec(part) ?? [];
  return name === undefined ? [] : [[name.toLowerCase(), quoted?.replace(/\\(.)/g, "$1") ?? bare]];
}

/** Finds MPP's challenge in a 402. `taken`: the request has an Authorization of its own, which the credential must not replace. */
export function mppChallenge(header: HeaderReader, taken: boolean): Challenge | undefined {
  const all = asked(header);
  if (all.length === 0) return undefined;
  const usable = taken ? all.filter(({ of }) => of.get("header")?.toLowerCase() === "payment-authorization") : all;
  if (usable.length === 0) {
    throw new RefusedByCallerError("The request has an Authorization of its own, in whose place the payment would go.", "authorization-in-use");
  }
  const sent = taken ? usable.map((one) => one.sent).join(", ") : text(header("WWW-Authenticate")).trim();
  return { version: 2, source: "mpp", sent, offers: usable.flatMap(offerOf), error: "" };
}

function offerOf({ of }: Asked): Offer[] {
  const scheme = `${of.get("method")}/${of.get("intent")}`;
  const { amount, currency: asset, recipient: payTo, network } = termsOf(of.get("request"));
  if (!/^(evm|tempo)\/charge$/.test(scheme) || (network !== tempo && payable.get(network) !== asset.toLowerCase())) return [];
  return [{ network, scheme, amount, asset, payTo }];
}

/** Reads the terms of a challenge. What cannot be read is "". */
function termsOf(request: unknown) {
  let terms: unknown;
  try {
    terms = JSON.parse(utf8(decodeBase64(text(request))));
  } catch {
    // as if it said nothing
  }
  const { amount, currency, recipient, methodDetails } = isObject(terms) ? terms : {};
  const chain = isObject(methodDetails) ? methodDetails["chainId"] : "";
  return { amount: text(amount), currency: text(currency), recipient: text(recipient), network: `eip155:${String(chain)}` };
}

/** Reads payee and amount of a signed payment of either protocol; undefined when it does not say. */
export function signedTerms(signature: string): { to: string; value: string } | undefined {
  try {
    const [, credential] = /^Payment (.*)$/.exec(signature) ?? [];
    const { challenge, payload } = JSON.parse(utf8(decodeBase64(credential ?? signature))) as Record<string, unknown>;
    if (!isObject(payload)) return undefined;
    const { amount, recipient } = termsOf(isObject(challenge) ? challenge["request"] : "");
    // A transaction says it in its own form: then the terms that it is for do.
    const told = credential === undefined ? payload["authorization"] : { to: recipient || undefined, value: amount || undefined, ...payload };
    if (!isObject(told)) return undefined;
    const { to, value } = told;
    return typeof to === "string" && typeof value === "string" ? { to, value } : undefined;
  } catch {
    return undefined;
  }
}
