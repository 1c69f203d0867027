// The errors of this package (BEHAVIOUR.md §8). None holds the API key or a payment header.
import type { Quote, QuotedOffer } from "./api.js";
import { usdc } from "./options.js";

/** The stable names of the errors. */
export type ErrorCode =
  | "key-not-resolved"
  | "no-wallet"
  | "limit-reached"
  | "declined"
  | "dry-run"
  | "refused-by-caller"
  | "invalid-challenge"
  | "not-replayable"
  | "idempotency-conflict"
  | "unclear"
  | "rejected"
  | "purser-unreachable"
  | "request-refused";

/** The cap that refused a payment. */
export type RefusalRule = "unasked" | "authorization-in-use" | "plain-http" | "host" | "amount" | "callback" | "signed-terms" | "budget";

/** What to do about an error, in a sentence each. */
export interface Advice {
  /** For the developer of the agent. */
  developer: string;
  /** For the operator of purser. */
  operator: string;
}

/** The facts that are known when an error is made. The others are absent or undefined. */
export interface ErrorFacts {
  /** purser's id of the payment. */
  paymentId?: string | undefined;
  /** The key under which purser knows the logical request. */
  idempotencyKey?: string | undefined;
  /** The URL that asked for money, without query and fragment. */
  url?: string | undefined;
  /** The status of purser's answer. */
  status?: number | undefined;
  /** The explanation in purser's answer. */
  detail?: string | undefined;
  /** The advice in purser's answer. */
  do?: Advice | undefined;
  /** The offers of the challenge, and why purser pays none. */
  offers?: QuotedOffer[] | undefined;
  /** The time until purser may answer otherwise, in milliseconds. */
  retryAfter?: number | undefined;
  /** The signed amount, in the smallest unit, or else the offers' if they agree. */
  amount?: string | undefined;
  /** The seller's host, with its port if the URL has one. */
  host?: string | undefined;
  /** Set when a payment may stand under the request's key, whatever this error is. */
  moneyMayHaveMoved?: true | undefined;
  /** The seller's answer (a fetch Response or an axios response), still readable. */
  response?: unknown;
  cause?: unknown;
}

const brand = Symbol.for("purserpay/error");

const learnt = ["paymentId", "idempotencyKey", "url", "status", "detail", "do", "offers", "retryAfter", "amount", "host", "response"] as const;

/** The class that all errors of this package derive from. */
export class PurserError extends Error {
  readonly code: ErrorCode;
  /** True when money may have left the wallet for this request, or for an earlier one that it repeats. */
  readonly moneyMayHaveMoved: boolean;
  declare readonly paymentId: string | undefined;
  declare readonly idempotencyKey: string | undefined;
  declare readonly url: string | undefined;
  declare readonly status: number | undefined;
  declare readonly detail: string | undefined;
  declare readonly do: Advice | undefined;
  declare readonly offers: QuotedOffer[] | undefined;
  declare readonly retryAfter: number | undefined;
  declare readonly amount: string | undefined;
  declare readonly host: string | undefined;
  declare readonly response: unknown;
  readonly #said: string;

  constructor(code: ErrorCode, message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = new.target.name;
    this.code = code;
    this.moneyMayHaveMoved = code === "unclear" || code === "rejected";
    this.#said = message;
    Object.defineProperty(this, brand, { value: true });
    this.learn(facts);
  }

  /** Reports whether the same client may repeat the request as it is. A repeat is the same payment, or the first. */
  get retryable(): boolean {
    const { code, retryAfter } = this;
    return code === "unclear" || code === "purser-unreachable" || (code === "limit-reached" && retryAfter !== undefined);
  }

  /** Copies all that other processes can hold: neither the seller's answer nor the way to resume. */
  toJSON(): Record<string, unknown> {
    const { name, message, retryable } = this;
    return Object.assign({ name, message, retryable }, this as object);
  }

  /** @internal Adds what is known further out. What the error knows itself stays. */
  learn(facts: ErrorFacts): void {
    const set = (name: string, value: unknown, enumerable = true) =>
      Object.defineProperty(this, name, { value, enumerable, configurable: true, writable: true });
    for (const name of learnt) {
      // Printed errors shall not drag whole answers along.
      if (facts[name] !== undefined && this[name] === undefined) set(name, facts[name], name !== "response");
    }
    if (facts.moneyMayHaveMoved) set("moneyMayHaveMoved", true);
    const before = this.message;
    set("message", withKnown(this.#said, this), false);
    if (this.stack !== undefined) set("stack", this.stack.replace(before, () => this.message), false);
  }
}

/** A message that ends with what is known of the payment, as far as it does not name it already. */
function withKnown(said: string, { paymentId, amount, host }: PurserError): string {
  const price = amount !== undefined && /^[0-9]{1,78}$/.test(amount) ? `${usdc(amount)} USDC` : undefined;
  const known = [paymentId && `payment ${paymentId}`, price, host].filter((part) => part && !names(said, part));
  return known.length > 0 ? `${said} (${known.join(", ")})` : said;
}

function names(said: string, part: string): boolean {
  const escaped = part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`(^|[^\\w.])${escaped}(?!\\w)`).test(said);
}

/** Every error of this package, by `code`: a switch over it knows the members of each. */
export type AnyPurserError<R = Response> =
  | KeyNotResolvedError
  | NoWalletError
  | LimitReachedError
  | DeclinedError
  | DryRunError
  | RefusedByCallerError
  | InvalidChallengeError
  | NotReplayableError
  | IdempotencyConflictError
  | UnclearError<R>
  | RejectedError<R>
  | PurserUnreachableError
  | RequestRefusedError;

/** Tells errors of this package from others, also when it was loaded twice (as ES module and as CommonJS). */
export function isPurserError<R = Response>(error: unknown): error is AnyPurserError<R> {
  return typeof error === "object" && error !== null && brand in error;
}

/** Answers that the program got in the place of errors, and their headers, which some SDKs keep. */
const hidden = new WeakMap<object, PurserError>();

/**
 * Finds the error of this package behind another one: SDKs wrap what their HTTP client throws. Looks along `cause`,
 * `errors`, `lastError`, and at the answer or the headers that an SDK's error holds, for `return402`.
 */
export function purserErrorOf<R = Response>(error: unknown): AnyPurserError<R> | undefined {
  const todo = [error];
  const seen = new Set<unknown>();
  for (const at of todo) {
    if (typeof at !== "object" || at === null || seen.has(at)) continue;
    seen.add(at);
    if (isPurserError<R>(at)) return at;
    const found = hidden.get(at);
    if (isPurserError<R>(found)) return found;
    const { cause, errors, lastError, response, headers } = at as Record<string, unknown>;
    todo.push(cause, lastError, response, headers, ...(Array.isArray(errors) ? (errors as unknown[]) : []));
  }
  return undefined;
}

/** Makes the 402 that takes the place of an error. SDKs repeat thrown errors, and not this answer. */
export function standIn(error: PurserError): { status: 402; headers: Record<string, string>; body: string } {
  const said = { message: error.message, type: "purser_error", code: error.code, param: null };
  const headers = { "content-type": "application/json", "purser-error": error.code, "x-should-retry": "false" };
  return { status: 402, headers, body: JSON.stringify({ error: said }) };
}

/** Lets `purserErrorOf` find an error by an answer, or by its headers. */
export function hide(error: PurserError, ...behind: object[]): void {
  for (const one of behind) hidden.set(one, error);
}

/** purser does not know the API key. */
export class KeyNotResolvedError extends PurserError {
  declare readonly code: "key-not-resolved";
  constructor(message: string, facts?: ErrorFacts) {
    super("key-not-resolved", message, facts);
  }
}

/** The API key has no wallet for the network. Create one with `wallets.create`. */
export class NoWalletError extends PurserError {
  declare readonly code: "no-wallet";
  readonly network: string;
  constructor(message: string, network: string, facts?: ErrorFacts) {
    super("no-wallet", message, facts);
    this.network = network;
  }
}

/** The plan allows no more payments this month. */
export class LimitReachedError extends PurserError {
  declare readonly code: "limit-reached";
  readonly upgradeUrl: string | undefined;
  constructor(message: string, upgradeUrl: string | undefined, facts?: ErrorFacts) {
    super("limit-reached", message, facts);
    this.upgradeUrl = upgradeUrl;
  }
}

/** The figures of a rule, as texts for people such as `"0.05 USDC"`. */
export interface Figures {
  price?: string | undefined;
  limit?: string | undefined;
  left?: string | undefined;
  /** When the same payment may pass, in RFC 3339. */
  resets?: string | undefined;
}

/** purser or its facilitator refused; nothing was paid. The message and `detail` say why, in words and amounts. */
export class DeclinedError extends PurserError implements Figures {
  declare readonly code: "declined";
  /** The rule of purser's policy, if that refused. */
  readonly rule: string | undefined;
  /** The rule, by the name that the proxy's `Purser-Declined` has. */
  readonly reason: string | undefined;
  declare readonly price: string | undefined;
  declare readonly limit: string | undefined;
  declare readonly left: string | undefined;
  declare readonly resets: string | undefined;
  /** The facilitator's words, as in purser's answer. */
  readonly facilitator: unknown;
  constructor(message: string, rule: string | undefined, facilitator: unknown, facts?: ErrorFacts, figures: Figures = {}) {
    super("declined", message, facts);
    this.rule = this.reason = rule;
    this.facilitator = facilitator;
    for (const name of ["price", "limit", "left", "resets"] as const) {
      if (figures[name] !== undefined) Object.defineProperty(this, name, { value: figures[name], enumerable: true });
    }
  }
}

/** The request was a dry run, and would be paid for. Nothing was. */
export class DryRunError extends PurserError {
  declare readonly code: "dry-run";
  /** The payment that purser would make. */
  readonly quote: Quote;
  constructor(message: string, quote: Quote, facts?: ErrorFacts) {
    super("dry-run", message, facts);
    this.quote = quote;
  }
}

/** A cap of the program itself refused; nothing was sent to the seller. */
export class RefusedByCallerError extends PurserError {
  declare readonly code: "refused-by-caller";
  readonly rule: RefusalRule;
  constructor(message: string, rule: RefusalRule, facts?: ErrorFacts) {
    super("refused-by-caller", message, facts);
    this.rule = rule;
  }
}

/** The seller's challenge cannot be read, or asks for something that purser cannot pay. */
export class InvalidChallengeError extends PurserError {
  declare readonly code: "invalid-challenge";
  constructor(message: string, facts?: ErrorFacts) {
    super("invalid-challenge", message, facts);
  }
}

/** The request cannot be sent a second time, so nothing was paid for it. */
export class NotReplayableError extends PurserError {
  declare readonly code: "not-replayable";
  constructor(message: string, facts?: ErrorFacts) {
    super("not-replayable", message, facts);
  }
}

/** The idempotency key stands for another purchase already. */
export class IdempotencyConflictError extends PurserError {
  declare readonly code: "idempotency-conflict";
  constructor(message: string, facts?: ErrorFacts) {
    super("idempotency-conflict", message, facts);
  }
}

/** Goes on with the same payment, never a new one (BEHAVIOUR.md §7). */
export type Resume<R> = (options?: { signal?: AbortSignal }) => Promise<R>;

/** It is not known whether the payment went through. */
export class UnclearError<R = unknown> extends PurserError {
  declare readonly code: "unclear";
  declare readonly resume: Resume<R>;
  constructor(message: string, resume: Resume<R>, facts?: ErrorFacts) {
    super("unclear", message, facts);
    Object.defineProperty(this, "resume", { value: resume, configurable: true });
  }
}

/** The seller answered the paid request with another 402. Money may have moved. */
export class RejectedError<R = unknown> extends PurserError {
  declare readonly code: "rejected";
  /** The seller's reason, by its receipt or its challenge. */
  readonly reason: string | undefined;
  declare readonly resume: Resume<R>;
  constructor(message: string, reason: string | undefined, resume: Resume<R>, facts?: ErrorFacts) {
    super("rejected", message, facts);
    this.reason = reason;
    Object.defineProperty(this, "resume", { value: resume, configurable: true });
  }
}

/** purser gave no usable answer. */
export class PurserUnreachableError extends PurserError {
  declare readonly code: "purser-unreachable";
  constructor(message: string, facts?: ErrorFacts) {
    super("purser-unreachable", message, facts);
  }
}

/** purser refused a request for a reason that has no class of its own. */
export class RequestRefusedError extends PurserError {
  declare readonly code: "request-refused";
  constructor(message: string, facts?: ErrorFacts) {
    super("request-refused", message, facts);
  }
}
