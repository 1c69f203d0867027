// purserpay: pays for 402 answers of x402 APIs through purser.
export type {
  AllOptions,
  ApiKey,
  CallOptions,
  Door,
  Limit,
  Limits,
  NewKey,
  PageOptions,
  Payment,
  PaymentState,
  PayRequest,
  PayResult,
  Protocol,
  Quote,
  QuotedOffer,
  SpendEvent,
  SpendPage,
  Wallet,
} from "./api.js";
export type { Offer } from "./challenge.js";
export { type Client, type ClientOptions, type ClientRequest, createClient } from "./client.js";
export {
  type Advice,
  type AnyPurserError,
  DeclinedError,
  DryRunError,
  type ErrorCode,
  type Figures,
  IdempotencyConflictError,
  InvalidChallengeError,
  isPurserError,
  KeyNotResolvedError,
  LimitReachedError,
  NotReplayableError,
  NoWalletError,
  PurserError,
  purserErrorOf,
  PurserUnreachableError,
  type RefusalRule,
  RefusedByCallerError,
  RejectedError,
  RequestRefusedError,
  type Resume,
  UnclearError,
} from "./errors.js";
export { type Closable, type PayingFetch, type PayingInit, wrapFetch } from "./fetch.js";
export type { Fetch, PaymentInfo, PaymentOptions, PurserOptions, Settlement, Terms } from "./options.js";
export { fromEnv, usdc } from "./options.js";
export type { Tracer } from "./spans.js";
export { paymentOf, type PaymentSummary } from "./purchase.js";
