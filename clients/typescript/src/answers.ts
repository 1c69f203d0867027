// The meaning of purser's answers (BEHAVIOUR.md §3).
import type { QuotedOffer } from "./api.js";
import { isObject, paymentHeaders, text } from "./challenge.js";
import {
  type Advice,
  DeclinedError,
  type ErrorCode,
  type ErrorFacts,
  IdempotencyConflictError,
  InvalidChallengeError,
  KeyNotResolvedError,
  LimitReachedError,
  NoWalletError,
  PurserError,
  PurserUnreachableError,
  RequestRefusedError,
} from "./errors.js";
import { type Answer, errorOf } from "./http.js";
import { credentialHeaders } from "./mpp.js";
import { retryAfter } from "./time.js";

/** A payment that purser handed out. */
export interface Paid {
  /** The request header for the seller. */
  readonly header: { readonly name: string; readonly value: string };
  readonly settled: boolean;
  readonly transaction: string;
  readonly paymentId: string | undefined;
  readonly state: string | undefined;
}

/** With these purser has signed nothing that could still be taken. */
export const endings = new Set<ErrorCode>(["no-wallet", "invalid-challenge", "declined"]);

/** These say nothing about what the key stands for already: purser may not have looked. */
export const blind = new Set<ErrorCode>(["key-not-resolved", "limit-reached", "request-refused", "idempotency-conflict"]);

/** Returns the payment in a 200, or undefined when it cannot be used. `taken`: the request has an Authorization of its own. */
export function paidOf(a: Answer, taken = false): Paid | undefined {
  const value = text(a.body["paymentSignature"]);
  const given = a.body["paymentHeader"] ?? paymentHeaders[0];
  const credential = credentialHeaders.find((known) => known === given);
  const name = credential ?? paymentHeaders.find((known) => known === given);
  const form = credential ? /^Payment [A-Za-z0-9_-]+={0,2}$/ : /^[A-Za-z0-9+/_-]+={0,2}$/;
  if (a.status !== 200 || name === undefined || (taken && name === "Authorization") || !form.test(value)) return undefined;
  const payment = paymentOf(a);
  return {
    header: { name, value },
    settled: a.body["settled"] === true,
    transaction: text(a.body["transaction"]),
    paymentId: payment.id,
    state: payment.state,
  };
}

/** Reports whether the payment of a 402 may still go through. */
export function isOpen(a: Answer): boolean {
  const payment = a.body["payment"];
  if (a.status !== 402 || !isObject(payment) || payment["state"] !== "open") return false;
  const flags: unknown = payment["flags"];
  return !(Array.isArray(flags) && flags.includes("refused"));
}

/** Reports whether asking again may bring another answer. */
export function isPassing(a: Answer): boolean {
  return a.status >= 500 || a.status < 300 || isOpen(a);
}

/** Returns id and state of the payment that an answer is about. */
export function paymentOf(a: Answer): { id: string | undefined; state: string | undefined } {
  const payment = a.body["payment"];
  if (!isObject(payment)) return { id: undefined, state: undefined };
  return { id: text(payment["id"]) || undefined, state: text(payment["state"]) || undefined };
}

function adviceIn(given: unknown): Advice | undefined {
  if (!isObject(given)) return undefined;
  const { developer, operator } = given;
  return typeof developer === "string" && typeof operator === "string" ? { developer, operator } : undefined;
}

/** Makes the error of an answer that is not a success. */
export function refusal(a: Answer): PurserError {
  const error = errorOf(a);
  const given = (name: string) => text(a.body[name]) || undefined;
  const detail = given("detail");
  const said = error ? `purser: ${error}` : `purser answered with status ${a.status}`;
  const offers = a.body["offers"];
  const message = detail ? `${said} (${detail})` : said;
  const facts: ErrorFacts = {
    status: a.status,
    detail,
    do: adviceIn(a.body["do"]),
    offers: Array.isArray(offers) ? (offers as QuotedOffer[]) : undefined,
    retryAfter: retryAfter(a.retryAfter),
    paymentId: paymentOf(a).id,
  };
  switch (a.status) {
    case 401:
      return new KeyNotResolvedError(message, facts);
    case 402:
      return new DeclinedError(message, given("rule"), a.body["facilitator"], facts, {
        price: given("price"),
        limit: given("limit"),
        left: given("left"),
        resets: given("resets"),
      });
    case 429:
      return new LimitReachedError(message, given("upgradeUrl"), facts);
  }
  if (a.status < 400 || a.status >= 500) return new PurserUnreachableError(message, facts);
  const network = /^No wallet for network ([^\s]+?)\.?(?:\s|$)/.exec(error)?.[1];
  if (a.status === 400 && network) return new NoWalletError(message, network, facts);
  if (a.status === 400 && (error === "paymentRequiredHeader (base64) required" || error.startsWith("Unsupported "))) {
    return new InvalidChallengeError(message, facts);
  }
  if (a.status === 400 && error === "idempotencyKey already used for a different request") {
    return new IdempotencyConflictError(message, facts);
  }
  return new RequestRefusedError(message, facts);
}
