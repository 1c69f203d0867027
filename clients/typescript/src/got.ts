// The same for got, which is known here by its form only: it is no dependency.
import { keep, type Kept, streamed } from "./body.js";
import { bodyChallenge, dealtWith, headerChallenge, type HeaderReader } from "./challenge.js";
import { hide, isPurserError, NotReplayableError } from "./errors.js";
import type { PayingInit } from "./fetch.js";
import { discard } from "./http.js";
import { asked } from "./mpp.js";
import { longer, needKey, type PaymentOptions, settings, type Terms } from "./options.js";
import { Payer, paymentOf } from "./purchase.js";
import { Shown } from "./shown.js";
import { either } from "./time.js";

/** The members of got's options that are needed here. */
interface GotOptions {
  method: string;
  headers: Record<string, string | string[] | undefined>;
  url: URL | string;
  prefixUrl: unknown;
  body: unknown;
  signal: AbortSignal | undefined;
  timeout: { request?: number; response?: number };
  followRedirect: unknown;
  responseType: string;
  isStream: boolean;
  resolveBodyOnly: boolean;
  context: { purser?: Terms };
  hooks: object;
  merge(changes: object): void;
}

/** The members of got's answers that are needed here. */
interface GotAnswer {
  statusCode: number;
  headers: Record<string, string | string[] | undefined>;
  url: string;
  /** The URL that the program asked for, before redirects. */
  requestUrl: URL | string;
  redirectUrls: readonly unknown[];
  rawBody: Uint8Array & { constructor: { from(text: string): GotAnswer["rawBody"] } };
  body: unknown;
  request: { options: GotOptions; once(event: string, listener: () => void): void; off(event: string, listener: () => void): void };
}

interface GotError extends Error {
  request?: object;
  /** Its body is absent where it is a stream that could not be read. */
  response?: Omit<GotAnswer, "rawBody"> & { rawBody?: Uint8Array };
}

type GotPromise = Promise<unknown> & { isCanceled: boolean; cancel(): void };

interface Got {
  (url: undefined, options: undefined, defaults: GotOptions): Promise<GotAnswer>;
  extend(options: object): unknown;
}

const paymentHeader = /^(?:payment-signature|x-payment|payment-authorization)$/i;

/**
 * Makes a got instance that pays for 402s. Its requests may have `context: { purser }` with what is said of one request.
 * Answers that are read as streams (`got.stream`) are not paid for: their error says so.
 */
export function wrap<G>(got: G, options: PaymentOptions): G {
  needKey(options);
  const { bodyLimit } = settings(options);
  const payer = new Payer({ ...options, bodyLimit: 0 }); // a stream has been sent when afterResponse sees its answer
  const bare = got as Got;
  const files: Files = new WeakMap();
  const purchases: Purchases = new WeakMap();
  const beforeRequest = (request: GotOptions) => keepBody(request, bodyLimit, files);
  const afterResponse = (answer: GotAnswer) => {
    if (answer.statusCode !== 402) return answer;
    const purchase = settled(payer, bare, answer, files);
    purchases.set(answer.request, purchase);
    return purchase;
  };
  const beforeError = (error: GotError) => named(error, payer.settings.challengeHeaders);
  const handler = (request: GotOptions, next: (request: GotOptions) => GotPromise) => {
    const outcome = next(request);
    if (request.isStream) return outcome;
    const cancel = () => {
      outcome.cancel();
    };
    return Object.defineProperties(outlived(outcome, request, purchases), {
      isCanceled: { get: () => outcome.isCanceled },
      // got sets a function of its own, which fails on any other promise than its own.
      cancel: { get: () => cancel, set: () => undefined },
    });
  };
  const hooks = { beforeRequest: [beforeRequest], afterResponse: [afterResponse], beforeError: [beforeError] };
  return bare.extend({ hooks, handlers: [handler] }) as G;
}

/** Purchases by the request that was answered with a 402. */
type Purchases = WeakMap<object, Promise<GotAnswer>>;

/** Waits for the purchase of a request that the program gave up: got's own error does not tell of the payment. */
async function outlived(outcome: GotPromise, { resolveBodyOnly }: GotOptions, purchases: Purchases): Promise<unknown> {
  try {
    return await outcome;
  } catch (error) {
    const { name, request } = error as GotError;
    const purchase = request && purchases.get(request);
    if (!purchase || !["AbortError", "CancelError", "TimeoutError"].includes(name)) throw error;
    const end = await purchase.catch((failure: unknown) => failure);
    if (isPurserError(end)) throw end;
    if (!paymentOf(end as GotAnswer)) throw error;
    return resolveBodyOnly ? (end as GotAnswer).body : end;
  }
}

/** Functions that open files again, by the streams that were sent. */
type Files = WeakMap<object, NonNullable<Kept["again"]>>;

/** Reads a one-shot body before it is sent. */
async function keepBody(request: GotOptions, limit: number, files: Files): Promise<void> {
  const { body } = request;
  if (request.isStream || typeof body !== "object" || body === null || ArrayBuffer.isView(body)) return;
  const kept = await keep(streamed(body), limit, request.signal);
  if (kept.body === body) {
    if (kept.again) files.set(body, kept.again);
  } else request.body = sendable(kept.body);
}

/** A body in a form that all versions of got take: of bytes, they know Buffers only. */
function sendable(body: RequestInit["body"]): unknown {
  const { Buffer } = globalThis as unknown as { Buffer: { from(bytes: ArrayBufferLike): unknown } };
  return body instanceof Uint8Array ? Buffer.from(body.buffer) : (body ?? undefined);
}

/** Names the reason of a 402 that was not paid for because its answer is a stream: that belongs to the program already. */
function named(error: GotError, challengeHeaders: readonly string[]): Error {
  const { response } = error;
  if (response?.statusCode !== 402 || !response.request.options.isStream) return error;
  const header: HeaderReader = (name) => [response.headers[name.toLowerCase()] ?? null].flat()[0] ?? null;
  try {
    if (dealtWith(header) || !(headerChallenge(header, challengeHeaders) ?? asked(header)[0] ?? bodyChallenge(response.rawBody ?? new Uint8Array()))) return error;
  } catch (invalid) {
    if (!isPurserError(invalid)) throw invalid;
  }
  const { origin, pathname, host } = new URL(response.url);
  const cause = new NotReplayableError("got.stream is not paid for; ask without it.", { url: origin + pathname, host, response });
  return Object.assign(error, { message: cause.message, cause });
}

async function settled(payer: Payer, got: Got, refused: GotAnswer, files: Files): Promise<GotAnswer> {
  const { options } = refused.request;
  const shown = new Shown<GotAnswer>(async (standIn) => {
    const text = await standIn.text();
    const { responseType } = options;
    const rawBody = refused.rawBody.constructor.from(text);
    const body: unknown = responseType === "json" ? JSON.parse(text) : responseType === "buffer" ? rawBody : text;
    return Object.assign(refused, { headers: Object.fromEntries(standIn.headers), rawBody, body });
  });
  const show = (answer: GotAnswer) =>
    shown.show(answer, {
      ...{ status: answer.statusCode, headers: answer.headers, url: answer.url },
      ...{ redirected: answer.redirectUrls.length > 0, body: [answer.rawBody] },
    });
  let first = true;
  const send = async (to: unknown, init: RequestInit = {}) => {
    if (first) {
      first = false;
      discard(init.body);
      return show(refused);
    }
    const inner = new (options.constructor as new (url: undefined, o: undefined, defaults: GotOptions) => GotOptions)(undefined, undefined, options);
    inner.hooks = { ...inner.hooks, afterResponse: [] }; // the program's run for the answer that it gets
    inner.merge({ retry: { limit: 0 }, throwHttpErrors: false, followRedirect: false, resolveBodyOnly: false, prefixUrl: "" });
    inner.method = init.method ?? "GET";
    inner.headers = Object.fromEntries(new Headers(init.headers));
    inner.url = String(to);
    inner.timeout = {}; // the signal fires when time is up
    inner.body = sendable(init.body);
    inner.signal = init.signal ?? undefined;
    const answer = await got(undefined, undefined, inner).catch((error: unknown) => {
      throw plain(error);
    });
    const { headers } = answer.request.options;
    for (const name of Object.keys(headers)) if (paymentHeader.test(name) || String(headers[name]).startsWith("Payment ")) Reflect.deleteProperty(headers, name);
    return show(answer);
  };
  const controller = new AbortController();
  const cancel = () => {
    controller.abort();
  };
  refused.request.once("close", cancel); // the program has cancelled
  const signal = options.signal ? either(options.signal, controller) : controller.signal;
  try {
    const headers = new Headers();
    for (const [name, value] of Object.entries(options.headers)) if (value !== undefined) headers.set(name, String(value));
    headers.delete("Content-Length");
    const redirect = options.followRedirect === false ? "manual" : "follow";
    const { purser } = options.context;
    const { request, response } = options.timeout;
    const paidTimeout = longer(longer(purser?.paidTimeout ?? payer.settings.paidTimeout, request), response);
    const init: PayingInit = { method: options.method, headers, signal, redirect, ...purser, paidTimeout };
    const { body } = options;
    if (body !== undefined) init.body = files.get(body as object)?.() ?? (body as BodyInit);
    return await shown.request(payer, send, String(refused.requestUrl), init);
  } catch (error) {
    if (isPurserError(error)) hide(error, refused); // the errors of older versions of got have no cause, but this answer
    throw error;
  } finally {
    refused.request.off("close", cancel);
  }
}

/** got's errors hold the request's headers, and among them the payment. */
function plain(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, code } = error as Error & { code?: unknown };
  return Object.assign(new Error(error.message), { name, code });
}
