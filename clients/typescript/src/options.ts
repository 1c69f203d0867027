// The options of a program, checked once.
import type { Offer } from "./challenge.js";
import type { PaymentSummary } from "./purchase.js";
import type { Tracer } from "./spans.js";

/** A function like the global fetch. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** The sender of the transfer to the chain: the seller (standard x402 sellers), or purser before the request is repeated. */
export type Settlement = "seller" | "payer";

/** The facts that `beforePayment` sees. */
export interface PaymentInfo {
  /** The URL that asked for money. */
  readonly url: string;
  /** Its host and port. */
  readonly host: string;
  readonly method: string;
  /** The ways to pay among which purser chooses. */
  readonly offers: readonly Offer[];
  /** The largest amount of the offers, in the asset's smallest unit (USDC: millionths). */
  readonly amount: string;
  /** The payee of the first offer. */
  readonly payTo: string;
}

/** Options for reaching purser. */
export interface PurserOptions {
  /** The secret of the API key. It is sent to `baseUrl` only. A client without one can only create keys. */
  apiKey?: string | undefined;
  /** purser's address, such as `http://127.0.0.1:8402`. */
  baseUrl: string | URL;
  /** Calls purser. Default: the global fetch, as it is when the client is made. */
  purserFetch?: Fetch | undefined;
}

/** Options for paying 402s. */
export interface PaymentOptions extends PurserOptions {
  apiKey: string;
  /** Default: `seller`. */
  settlement?: Settlement | undefined;
  /**
   * The most that one request may cost: `"0.05 USDC"`, or in the asset's smallest unit (USDC: millionths). Default: no cap
   * here; purser has its own.
   */
  maxAmount?: string | bigint | undefined;
  /** The most that all payments of this client may cost together, in the forms of `maxAmount`. Default: no budget here. */
  budget?: string | bigint | undefined;
  /** Books and limits the payments under this name. Default: none. */
  task?: string | undefined;
  /** Hosts that may be paid: `api.example.com`, `*.example.com`, `*`, each with `:port` if you like. Default: all. */
  allowHosts?: readonly string[] | undefined;
  /** Sees every payment before it is made. Only `true` allows it; anything else, and an exception, refuses it. */
  beforePayment?: ((info: PaymentInfo) => boolean | Promise<boolean>) | undefined;
  /**
   * Is called once for each paid answer and for each payment that is rejected or unclear, with what `paymentOf` tells. What
   * it throws changes nothing.
   */
  onPayment?: ((payment: PaymentSummary) => unknown) | undefined;
  /** Is told of payments and of what goes wrong beside them; `console` is one. Default: none. */
  logger?: { info(message: string): void; warn(message: string, ...more: unknown[]): void } | undefined;
  /** Makes a span of each purchase: `trace.getTracer("…")` of OpenTelemetry. Default: none. */
  tracer?: Tracer | undefined;
  /** More response headers that may hold a challenge. */
  challengeHeaders?: readonly string[] | undefined;
  /** Keeps so many bytes of a one-shot body for the paid request. Default: 1 MiB. */
  bodyLimit?: number | undefined;
  /** Ends one try of purser after so many milliseconds. Default: 75,000. */
  payTimeout?: number | undefined;
  /** Ends one paid request that the seller has not answered after so many milliseconds. Default: 300,000. */
  paidTimeout?: number | undefined;
  /** Sends a payment whose outcome is unclear again, so many times. Default: 1. */
  resends?: number | undefined;
  /** Holds an answer back for reporting its receipt, so many milliseconds at most. Default: 1,000. */
  receiptWait?: number | undefined;
  /**
   * Errors of this package are not thrown: the program gets a 402 with the reason instead, which SDKs do not repeat.
   * `purserErrorOf` finds the error by it. Default: false.
   */
  return402?: boolean | undefined;
  /** Keeps the runtime alive for a receipt that takes longer (`ctx.waitUntil` of edge runtimes). */
  waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/** The program's terms for one request's payment. */
export interface Terms {
  /** The most that this request may cost, beside the client's own cap: the smaller one holds. */
  maxAmount?: string | bigint | undefined;
  /** Books the payment under this name, in place of the client's. */
  task?: string | undefined;
  /** Nothing is paid: a request that would be paid for throws a DryRunError with the quote. */
  dryRun?: boolean | undefined;
  /** In the place of the client's, in milliseconds. */
  payTimeout?: number | undefined;
  paidTimeout?: number | undefined;
}

/** Options with defaults filled in. */
export interface Settings {
  readonly settlement: Settlement;
  readonly maxAmount: bigint | undefined;
  readonly budget: bigint | undefined;
  readonly task: string | undefined;
  readonly allowHosts: readonly string[] | undefined;
  readonly beforePayment: PaymentOptions["beforePayment"];
  readonly onPayment: PaymentOptions["onPayment"];
  readonly logger: PaymentOptions["logger"];
  readonly tracer: PaymentOptions["tracer"];
  readonly challengeHeaders: readonly string[];
  readonly bodyLimit: number;
  readonly payTimeout: number;
  readonly paidTimeout: number;
  readonly resends: number;
  readonly receiptWait: number;
  readonly return402: boolean;
  readonly waitUntil: PaymentOptions["waitUntil"];
}

/** Checks options. Errors are TypeErrors that name the option. */
export function settings(o: Omit<PaymentOptions, "apiKey">): Settings {
  const settlement: string = o.settlement ?? "seller";
  if (settlement !== "seller" && settlement !== "payer") throw new TypeError('settlement must be "seller" or "payer"');
  return {
    settlement,
    maxAmount: o.maxAmount === undefined ? undefined : cap(o.maxAmount),
    budget: o.budget === undefined ? undefined : cap(o.budget, "budget"),
    task: o.task,
    allowHosts: o.allowHosts === undefined ? undefined : [...o.allowHosts],
    beforePayment: o.beforePayment,
    onPayment: o.onPayment,
    logger: o.logger,
    tracer: o.tracer,
    challengeHeaders: [...(o.challengeHeaders ?? [])],
    bodyLimit: whole("bodyLimit", o.bodyLimit ?? 1 << 20),
    payTimeout: time("payTimeout", o.payTimeout ?? 75_000, 1),
    paidTimeout: time("paidTimeout", o.paidTimeout ?? 300_000, 1),
    resends: whole("resends", o.resends ?? 1),
    receiptWait: time("receiptWait", o.receiptWait ?? 1000, 0),
    return402: o.return402 ?? false,
    waitUntil: o.waitUntil,
  };
}

/** A URL as others may see it: without user, password and fragment. */
export function bareUrl(given: URL): string {
  const url = new URL(given);
  url.username = url.password = url.hash = "";
  return url.href;
}

/** An amount in canonical decimal, or undefined. */
export function parseAmount(amount: string): bigint | undefined {
  return /^(?:0|[1-9][0-9]{0,77})$/.test(amount) ? BigInt(amount) : undefined;
}

const decimals = 6;

/** Checks a cap: a bigint or digits of smallest units, or USDC with the unit named. */
export function cap(given: unknown, name = "maxAmount"): bigint {
  if (typeof given === "bigint" && given >= 0n) return given;
  if (typeof given === "string") {
    const amount = parseAmount(given);
    if (amount !== undefined) return amount;
    const [, whole, fraction = ""] = /^([0-9]{1,60})(?:\.([0-9]{1,6}))? USDC$/.exec(given) ?? [];
    if (whole !== undefined) return BigInt(whole + fraction.padEnd(decimals, "0"));
  }
  throw new TypeError(`${name} must be a bigint or a decimal string of smallest units, or such as "0.05 USDC"`);
}

/** An amount in the smallest unit as USDC: `usdc("10000")` is `"0.01"`. */
export function usdc(amount: string | bigint): string {
  const digits = BigInt(amount).toString();
  const sign = digits.startsWith("-") ? "-" : "";
  const padded = digits.slice(sign.length).padStart(decimals + 1, "0");
  const fraction = padded.slice(-decimals).replace(/0{1,4}$/, "");
  return `${sign}${padded.slice(0, -decimals)}.${fraction}`;
}

function whole(name: string, given: number): number {
  if (!Number.isSafeInteger(given) || given < 0) throw new TypeError(`${name} must be a whole number that is not negative`);
  return given;
}

// Timers take a longer time for none at all, and then what was paid for would be given up at once.
const longest = 2 ** 31 - 1;

/** Checks a time in milliseconds. */
export function time(name: string, given: number, least: number): number {
  if (Number.isSafeInteger(given) && given >= least && given <= longest) return given;
  throw new TypeError(`${name} must be a whole number of milliseconds from ${least} to ${longest}`);
}

/** Returns a time that is not shorter than what the program's own client waits. */
export function longer(ms: number, own: unknown): number {
  return typeof own === "number" && own > ms ? Math.min(Math.ceil(own), longest) : ms;
}

/**
 * Options of the environment: `PURSER_KEY`, `PURSER_URL`, and what else is set of `PURSER_MAX_AMOUNT`, `PURSER_ALLOW_HOSTS`
 * (commas between) and `PURSER_TASK`. What is given comes first.
 */
export function fromEnv(given: Partial<PaymentOptions> = {}): PaymentOptions {
  const { process } = globalThis as { process?: { env: Record<string, string | undefined> } };
  const env = process?.env ?? {};
  const read: Partial<PaymentOptions> = {};
  if (env["PURSER_KEY"]) read.apiKey = env["PURSER_KEY"];
  if (env["PURSER_URL"]) read.baseUrl = env["PURSER_URL"];
  if (env["PURSER_MAX_AMOUNT"]) read.maxAmount = env["PURSER_MAX_AMOUNT"];
  if (env["PURSER_ALLOW_HOSTS"]) read.allowHosts = env["PURSER_ALLOW_HOSTS"].split(",").map((host) => host.trim());
  if (env["PURSER_TASK"]) read.task = env["PURSER_TASK"];
  const said = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Partial<PaymentOptions>;
  const { apiKey, baseUrl, ...more } = { ...read, ...said };
  if (!apiKey) throw new TypeError("PURSER_KEY is not set");
  if (!baseUrl) throw new TypeError("PURSER_URL is not set");
  return { apiKey, baseUrl, ...more };
}

/** Fails when there is no key: an environment variable that is not set shall not show first when something costs money. */
export function needKey(o: PurserOptions): void {
  if (!o.apiKey) throw new TypeError("apiKey is not set");
}
