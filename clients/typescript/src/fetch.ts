// A fetch that pays (BEHAVIOUR.md §1, §4, §5).
import { isOneShot, type Kept, keep } from "./body.js";
import {
  bodyChallenge,
  carriesPayment,
  type Challenge,
  dealtWith,
  headerChallenge,
  maxChallengeBytes,
  maxChallengeTime,
  objectStart,
} from "./challenge.js";
import { hide, isPurserError, standIn } from "./errors.js";
import { discard, readUpTo } from "./http.js";
import { mppChallenge } from "./mpp.js";
import { cap, type Fetch, needKey, type PaymentOptions, type Terms, time } from "./options.js";
import type { Sent } from "./bill.js";
import { Payer } from "./purchase.js";
import { becomesGet, blocked, credentials, isRedirect } from "./redirects.js";
import { inPage, notCached } from "./slim.js";
import { deadline } from "./time.js";

/** The options of a paying fetch: all of fetch's own, and the terms of this logical request's payment. */
export interface PayingInit extends RequestInit, Terms {
  /** Under one key at most one payment is made. Default: a new key; the header `Idempotency-Key` comes first. */
  idempotencyKey?: string | undefined;
}

/** A fetch that pays. */
export type PayingFetch = (input: string | URL | Request, init?: PayingInit) => Promise<Response>;

/** An object that a program may close at its end. */
export interface Closable {
  /** Waits so many milliseconds at most (5,000) for receipts on their way to purser, and drops the others. */
  close(ms?: number): Promise<void>;
}

/** Wraps a fetch: a 402 with an x402 challenge is paid for through purser, and the request sent again. */
export function wrapFetch(fetch: Fetch, options: PaymentOptions): PayingFetch & Closable {
  needKey(options);
  const payer = new Payer(options);
  return Object.assign(payingFetch(fetch, payer), { close: (ms?: number) => payer.close(ms) });
}

/** A paying fetch that shares its memory and settings with others. */
export function payingFetch(fetch: Fetch, payer: Payer): PayingFetch {
  return (input, init) => new Call(fetch, payer, input, init ?? {}).run();
}

class Call {
  readonly #fetch: Fetch;
  readonly #payer: Payer;
  readonly #request: Request | undefined;
  readonly #url: string;
  readonly #init: RequestInit;
  readonly #key: string | undefined;
  readonly #terms: Terms;
  readonly #headers: Headers;
  readonly #header = (name: string) => this.#headers.get(name);
  readonly #method: string;
  readonly #signal: AbortSignal | undefined;
  #kept: Kept | undefined;

  constructor(fetch: Fetch, payer: Payer, input: string | URL | Request, init: PayingInit) {
    this.#fetch = fetch;
    this.#payer = payer;
    const { idempotencyKey, maxAmount, task, dryRun = false, payTimeout, paidTimeout, ...rest } = init;
    this.#terms = { dryRun };
    if (maxAmount !== undefined) this.#terms.maxAmount = cap(maxAmount);
    if (task !== undefined) this.#terms.task = task;
    if (payTimeout !== undefined) this.#terms.payTimeout = time("payTimeout", payTimeout, 1);
    if (paidTimeout !== undefined) this.#terms.paidTimeout = time("paidTimeout", paidTimeout, 1);
    this.#request = isRequest(input) ? input : undefined;
    this.#url = isRequest(input) ? input.url : String(input);
    // So much of an answer node-fetch keeps for the half of a clone that is not read yet.
    this.#init = { highWaterMark: maxChallengeBytes, ...rest } as RequestInit;
    this.#headers = new Headers(init.headers ?? this.#request?.headers);
    this.#method = (init.method ?? this.#request?.method ?? "GET").toUpperCase();
    this.#signal = init.signal === null ? undefined : (init.signal ?? this.#request?.signal);
    this.#key = ownKey(this.#headers.get("Idempotency-Key"), idempotencyKey);
  }

  async run(): Promise<Response> {
    try {
      return await this.#run();
    } catch (error) {
      if (!this.#payer.settings.return402 || !isPurserError(error)) throw error;
      const { body, ...init } = standIn(error);
      const answer = new Response(body, init);
      hide(error, answer, answer.headers);
      return answer;
    }
  }

  async #run(): Promise<Response> {
    if (carriesPayment(this.#header)) {
      return this.#fetch.call(undefined, this.#request ?? this.#url, this.#init);
    }
    const response = await this.#payer.first(this.#method, this.#url, this.#header, this.#first());
    if (response.status !== 402 || dealtWith((name) => response.headers.get(name))) return response;
    const url = new URL(response.url || this.#url, pageUrl());
    let challenge: Challenge | undefined;
    try {
      challenge = await challengeOf(response, this.#payer.settings.challengeHeaders, this.#headers.has("Authorization"));
    } catch (error) {
      if (isPurserError(error)) error.learn({ url: url.origin + url.pathname, host: url.host, response });
      throw error;
    }
    if (!challenge) return response;
    return this.#payer.settle({
      method: this.#method,
      asked: new URL(this.#url, pageUrl()),
      url,
      header: this.#header,
      refused: response,
      challenge,
      signal: this.#signal,
      idempotencyKey: this.#key,
      terms: this.#terms,
      blocked: blocked(this.#kept, response.redirected, this.#method),
      body: () => this.#kept?.again?.(),
      send: (header, signal) => this.#sendPaid(url, header, signal),
      discardRefused: () => {
        discard(response.body);
      },
    });
  }

  /** Sends the request as the program made it, but with a body that may come again. */
  async #first(): Promise<Response> {
    let given: unknown = this.#init.body;
    if (given === undefined && this.#request && this.#method !== "GET" && this.#method !== "HEAD") {
      // Some browsers do not show a request's body as a stream.
      given = "body" in this.#request ? this.#request.body : await (this.#request as Request).arrayBuffer();
    }
    if (given !== null && given !== undefined) {
      this.#kept = await keep(given, this.#payer.settings.bodyLimit, this.#signal);
      if (this.#kept.type !== undefined && !this.#headers.has("Content-Type")) {
        this.#headers.set("Content-Type", this.#kept.type);
        this.#init.headers = this.#headers;
      }
    }
    const init = { ...this.#init, ...withBody(this.#kept?.body) };
    if (!this.#request) return this.#fetch.call(undefined, this.#url, init);
    return this.#fetch.call(undefined, ...this.#copy(this.#request, this.#url, init));
  }

  async #sendPaid(url: URL, header: { name: string; value: string }, signal: AbortSignal): Promise<Sent<Response>> {
    const init: RequestInit = { ...this.#again(url, this.#method, this.#kept?.again?.()), redirect: "manual", signal };
    const headers = init.headers as Headers;
    headers.set(header.name, header.value);
    if (inPage()) init.cache = "no-store";
    else {
      headers.set("Cache-Control", notCached(headers.get("Cache-Control")));
      headers.set("Pragma", "no-cache");
    }
    const mode = this.#init.redirect ?? this.#request?.redirect ?? "follow";
    return this.#sent(await this.#submit(url, init), url, mode, signal);
  }

  #sent(response: Response, url: URL, mode: RequestInit["redirect"], signal: AbortSignal): Sent<Response> {
    const sent: Sent<Response> = {
      answer: response,
      status: response.status,
      header: (name) => response.headers.get(name),
      page: () => pageOf(response),
      copy: () => response.clone().body,
      discard: () => {
        discard(response.body);
      },
    };
    if (mode === "manual") return sent;
    const location = isRedirect(response.status) ? response.headers.get("Location") : null;
    if (location === null && response.type !== "opaqueredirect") return sent;
    if (location === null || mode === "error") return { ...sent, hidden: true };
    return { ...sent, follow: () => this.#follow(response, new URL(location, url), url, signal) };
  }

  /** Follows a redirect of the paid answer, without the payment. */
  async #follow(response: Response, to: URL, from: URL, signal: AbortSignal): Promise<Sent<Response>> {
    discard(response.body);
    const get = becomesGet(response.status, this.#method);
    const init = get ? this.#again(to, "GET", undefined) : this.#again(to, this.#method, this.#kept?.again?.());
    if (to.origin !== from.origin) strip(init.headers as Headers);
    const answer = await this.#submit(to, { ...init, redirect: "follow", signal });
    return this.#sent(answer, to, "manual", signal);
  }

  /** Makes the request once more, with another URL, method and body. */
  #again(url: URL, method: string, body: RequestInit["body"]): RequestInit {
    const headers = new Headers(this.#headers);
    if (url.origin !== new URL(this.#url, pageUrl()).origin) strip(headers);
    if (body === undefined && this.#kept) {
      for (const name of ["Content-Type", "Content-Encoding", "Content-Language", "Content-Location"]) headers.delete(name);
    }
    const { body: _, ...init } = this.#init;
    return { ...init, method, headers, ...withBody(body) };
  }

  #submit(url: URL, init: RequestInit): Promise<Response> {
    if (!this.#request) return this.#fetch.call(undefined, url.href, init);
    return this.#fetch.call(undefined, ...this.#copy(this.#request, url.href, init));
  }

  /** Makes the arguments of fetch for a Request, whether it has been sent or not. Its own body is not used. */
  #copy(r: Request, url: string, init: RequestInit): [Request] | [string, RequestInit] {
    // A Request of a package is taken apart: the runtime's own class makes nothing of it.
    if (!(r instanceof Request)) return [url, { ...settingsOf(r), method: this.#method, headers: this.#headers, ...init }];
    const whole = url === r.url && (init.body !== undefined || !r.bodyUsed);
    return [whole ? new Request(r, init) : new Request(url, { ...settingsOf(r), ...init })];
  }
}

function withBody(body: RequestInit["body"]): RequestInit & { duplex?: "half" } {
  return body === undefined || body === null ? {} : isOneShot(body) ? { body, duplex: "half" } : { body };
}

/** Returns the settings of a request, but for its method and body. */
function settingsOf(r: Request): RequestInit {
  const init: RequestInit = {};
  const members = ["cache", "credentials", "integrity", "keepalive", "mode", "redirect", "referrer", "referrerPolicy", "signal"] as const;
  for (const name of members) {
    const value: unknown = r[name]; // edge runtimes lack some of them
    if (value !== undefined && value !== "" && value !== "navigate") Object.assign(init, { [name]: value });
  }
  return init;
}

/** Finds the challenge of a 402, whose body stays readable. */
async function challengeOf(response: Response, extra: readonly string[], taken: boolean): Promise<Challenge | undefined> {
  const header = (name: string) => response.headers.get(name);
  return headerChallenge(header, extra) ?? mppChallenge(header, taken) ?? bodyChallenge(await pageOf(response, objectStart()));
}

/** The beginning of an answer's body, which stays readable. Empty when more is not worth reading, or did not come. */
async function pageOf(response: Response, more?: (piece: Uint8Array) => boolean): Promise<Uint8Array> {
  const limit = deadline(maxChallengeTime, "an answer");
  const none = { bytes: new Uint8Array(), complete: true };
  const read = response.body ? readUpTo(response.clone().body, maxChallengeBytes, more, limit.signal) : none;
  const { bytes, complete } = await Promise.resolve(read).catch(() => none).finally(limit.clear); // the program will see
  return complete || !more ? bytes : none.bytes;
}

function strip(headers: Headers): void {
  for (const name of credentials) headers.delete(name);
}

/** Returns the program's idempotency key: by header, else by option. */
export function ownKey(header: string | null, given: string | undefined): string | undefined {
  if (header !== null && header.length >= 1 && header.length <= 255) return header;
  if (given !== undefined && (given.length < 1 || given.length > 255)) {
    throw new TypeError("idempotencyKey must have 1 to 255 characters");
  }
  return given;
}

// By its form: a runtime may have several classes of this name.
function isRequest(input: string | URL | Request): input is Request {
  return typeof input === "object" && "method" in input && "headers" in input;
}

/** Returns the URL of the page, to which relative URLs are relative. */
function pageUrl(): string | undefined {
  return (globalThis as { location?: { href?: string } }).location?.href;
}

