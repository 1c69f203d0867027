import type { Quote } from "./api.js";

// What can end a logical request other than an answer (BEHAVIOUR.md §8). No error holds the API key or a payment header.

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
export type RefusalRule = "plain-http" | "host" | "amount" | "callback" | "signed-terms";

/** What is known when an error is made. Members that are not known are absent or undefined. */
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
  /** How long to wait until purser may answer otherwise, in milliseconds. */
  retryAfter?: number | undefined;
  /** The seller's answer (a fetch Response or an axios response), still readable. */
  response?: unknown;
  cause?: unknown;
}

const brand = Symbol.for("purserpay/error");

/** The class that all errors of this package derive from. */
export class PurserError extends Error {
  readonly code: ErrorCode;
  declare readonly paymentId: string | undefined;
  declare readonly idempotencyKey: string | undefined;
  declare readonly url: string | undefined;
  declare readonly status: number | undefined;
  declare readonly detail: string | undefined;
  declare readonly retryAfter: number | undefined;
  declare readonly response: unknown;

  constructor(code: ErrorCode, message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = new.target.name;
    this.code = code;
    Object.defineProperty(this, brand, { value: true });
    learn(this, facts);
  }
}

/** Adds to an error what is known further out. What it knows itself stays. */
export function learn(error: PurserError, facts: ErrorFacts): void {
  for (const name of ["paymentId", "idempotencyKey", "url", "status", "detail", "retryAfter", "response"] as const) {
    if (facts[name] === undefined || error[name] !== undefined) continue;
    // Printed errors shall not drag whole answers along.
    Object.defineProperty(error, name, { value: facts[name], enumerable: name !== "response" });
  }
}

/** Tells errors of this package from others, also when it was loaded twice (as ES module and as CommonJS). */
export function isPurserError(error: unknown): error is PurserError {
  return typeof error === "object" && error !== null && brand in error;
}

/** purser does not know the API key. */
export class KeyNotResolvedError extends PurserError {
  constructor(message: string, facts?: ErrorFacts) {
    super("key-not-resolved", message, facts);
  }
}

/** The API key has no wallet for the network. Create one with `wallets.create`. */
export class NoWalletError extends PurserError {
  readonly network: string;
  constructor(message: string, network: string, facts?: ErrorFacts) {
    super("no-wallet", message, facts);
    this.network = network;
  }
}

/** The plan allows no more payments this month. */
export class LimitReachedError extends PurserError {
  readonly upgradeUrl: string | undefined;
  constructor(message: string, upgradeUrl: string | undefined, facts?: ErrorFacts) {
    super("limit-reached", message, facts);
    this.upgradeUrl = upgradeUrl;
  }
}

/** What a rule has counted, as texts for people such as `"0.05 USDC"`. */
export interface Figures {
  price?: string | undefined;
  limit?: string | undefined;
  left?: string | undefined;
  /** When the same payment may pass, in RFC 3339. */
  resets?: string | undefined;
}

/** purser or its facilitator refused; nothing was paid. The message and `detail` say why, in words and amounts. */
export class DeclinedError extends PurserError implements Figures {
  /** The rule of purser's policy, if that refused. */
  readonly rule: string | undefined;
  /** The rule, by the name that the proxy's `Purser-Declined` has. */
  readonly reason: string | undefined;
  declare readonly price: string | undefined;
  declare readonly limit: string | undefined;
  declare readonly left: string | undefined;
  declare readonly resets: string | undefined;
  /** What the facilitator said, as in purser's answer. */
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
  /** What would be paid. */
  readonly quote: Quote;
  constructor(message: string, quote: Quote, facts?: ErrorFacts) {
    super("dry-run", message, facts);
    this.quote = quote;
  }
}

/** A cap of the program itself refused; nothing was sent to the seller. */
export class RefusedByCallerError extends PurserError {
  readonly rule: RefusalRule;
  constructor(message: string, rule: RefusalRule, facts?: ErrorFacts) {
    super("refused-by-caller", message, facts);
    this.rule = rule;
  }
}

/** The seller's challenge cannot be read, or asks for something that purser cannot pay. */
export class InvalidChallengeError extends PurserError {
  constructor(message: string, facts?: ErrorFacts) {
    super("invalid-challenge", message, facts);
  }
}

/** The request cannot be sent a second time, so nothing was paid for it. */
export class NotReplayableError extends PurserError {
  constructor(message: string, facts?: ErrorFacts) {
    super("not-replayable", message, facts);
  }
}

/** The idempotency key stands for another purchase already. */
export class IdempotencyConflictError extends PurserError {
  constructor(message: string, facts?: ErrorFacts) {
    super("idempotency-conflict", message, facts);
  }
}

/** Goes on with the same payment, never a new one (BEHAVIOUR.md §7). */
export type Resume<R> = (options?: { signal?: AbortSignal }) => Promise<R>;

/** It is not known whether the payment went through. */
export class UnclearError<R = unknown> extends PurserError {
  declare readonly resume: Resume<R>;
  constructor(message: string, resume: Resume<R>, facts?: ErrorFacts) {
    super("unclear", message, facts);
    Object.defineProperty(this, "resume", { value: resume });
  }
}

/** The seller answered the paid request with another 402. Money may have moved. */
export class RejectedError<R = unknown> extends PurserError {
  /** The seller's reason, by its receipt or its challenge. */
  readonly reason: string | undefined;
  declare readonly resume: Resume<R>;
  constructor(message: string, reason: string | undefined, resume: Resume<R>, facts?: ErrorFacts) {
    super("rejected", message, facts);
    this.reason = reason;
    Object.defineProperty(this, "resume", { value: resume });
  }
}

/** purser gave no usable answer. */
export class PurserUnreachableError extends PurserError {
  constructor(message: string, facts?: ErrorFacts) {
    super("purser-unreachable", message, facts);
  }
}

/** purser refused a request for a reason that has no class of its own. */
export class RequestRefusedError extends PurserError {
  constructor(message: string, facts?: ErrorFacts) {
    super("request-refused", message, facts);
  }
}
