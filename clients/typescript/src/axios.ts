// The same for axios, which is known here by its form only: it is no dependency.
import { keep } from "./body.js";
import { bodyChallenge, carriesPayment, type Challenge, dealtWith, type HeaderReader, headerChallenge } from "./challenge.js";
import { hide, isPurserError, standIn } from "./errors.js";
import { ownKey } from "./fetch.js";
import { discard } from "./http.js";
import { mppChallenge } from "./mpp.js";
import { bareUrl, longer, needKey, type PaymentOptions, type Terms } from "./options.js";
import type { Sent } from "./bill.js";
import { Payer } from "./purchase.js";
import { becomesGet, blocked, credentials, isRedirect } from "./redirects.js";
import { inPage, notCached } from "./slim.js";

/** The members of an axios configuration that are needed here. */
export interface AxiosConfig {
  url?: string | undefined;
  baseURL?: string | undefined;
  method?: string | undefined;
  headers?: unknown;
  params?: unknown;
  data?: unknown;
  adapter?: unknown;
  signal?: unknown;
  maxRedirects?: number | undefined;
  auth?: unknown;
  /** The program's terms for this request's payment. */
  purser?: Terms;
}

/** The members of an axios response that are needed here. */
export interface AxiosAnswer {
  status: number;
  headers: unknown;
  data: unknown;
  config: unknown;
  request?: unknown;
}

/** The members of an axios instance that are needed here (1.7 or later). */
export interface AxiosLike {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- axios' own types differ between versions
  interceptors: { request: { use(onFulfilled: (config: any) => any): number; eject(id: number): void } };
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  create(config?: any): any;
}

/** An instance without interceptors. */
interface Bare {
  request(config: Record<string, unknown>): Promise<AxiosAnswer>;
  getUri(config: Record<string, unknown>): string;
}

type Config = AxiosConfig & Record<string, unknown>;

/**
 * Makes an axios instance pay for 402s. It is an interceptor that puts itself around the adapter, so that all other
 * interceptors and transforms run once for each request, whatever is sent. Returns a function that takes it off again.
 */
export function payWithAxios(instance: AxiosLike, options: PaymentOptions): () => void {
  needKey(options);
  const payer = new Payer(options);
  const bare = instance.create() as Bare & { defaults: Record<string, unknown> };
  // Its configurations are complete: its own defaults would come back where a setting is taken out.
  for (const name of Object.keys(bare.defaults)) Reflect.deleteProperty(bare.defaults, name);
  const id = instance.interceptors.request.use((config: Config) => {
    // A program may send the configuration of an answer or an error again: its adapter is ours then.
    const adapter = originals.has(config.adapter as object) ? originals.get(config.adapter as object) : config.adapter;
    const paying = (final: Config) => new Call(payer, bare, { ...final, adapter }).run(final);
    originals.set(paying, adapter);
    config.adapter = paying;
    return config;
  });
  return () => {
    instance.interceptors.request.eject(id);
  };
}

const wrapped = new WeakSet();

/** Makes an existing instance pay, and returns it. Once: a second time is an error. */
export function wrap<A extends AxiosLike>(instance: A, options: PaymentOptions): A {
  if (wrapped.has(instance)) throw new TypeError("this axios instance pays already");
  payWithAxios(instance, options);
  wrapped.add(instance);
  return instance;
}

/** The adapters inside of ours. */
const originals = new WeakMap<object, unknown>();

const asksForMoney = (answer: AxiosAnswer) => answer.status === 402 && !dealtWith(readerOf(answer.headers));

const same = (data: unknown) => data;

class Call {
  readonly #errors = new WeakMap<object, unknown>(); // of answers that validateStatus does not like
  readonly #signal: AbortSignal | undefined;
  readonly #method: string;
  readonly #url: URL;
  readonly #kept: { first?: unknown; again: (() => unknown) | undefined };

  constructor(
    private readonly payer: Payer,
    private readonly bare: Bare,
    private readonly config: Config,
  ) {
    this.#signal = signalOf(config);
    this.#method = (config.method ?? "get").toUpperCase();
    this.#url = new URL(bare.getUri(config), (globalThis as { location?: { href?: string } }).location?.href);
    this.#kept = { again: () => config.data };
  }

  async run(outer: Config): Promise<AxiosAnswer> {
    try {
      const answer = await this.#run();
      const error = this.#errors.get(answer);
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- axios made it
      if (error !== undefined) throw error;
      answer.config = outer;
      return answer;
    } catch (error) {
      this.#clean(error, outer);
      const validateStatus = this.config["validateStatus"] as ((status: number) => boolean) | null | undefined;
      if (this.payer.settings.return402 && isPurserError(error) && (validateStatus?.(402) ?? true)) {
        const { status, headers, body } = standIn(error);
        const answer: AxiosAnswer = { status, headers, data: body, config: outer };
        hide(error, answer);
        return answer;
      }
      if (!this.#signal?.aborted || typeof error !== "object" || error === null) throw error;
      if (!isPurserError(error)) return this.bare.request({ ...this.config, signal: this.#signal }); // rejects in axios' way
      // Else axios would put an error of its own in the place of this one, which tells of the payment.
      Object.defineProperty(error, "__CANCEL__", { value: true });
      throw error;
    }
  }

  async #run(): Promise<AxiosAnswer> {
    const header = readerOf(this.config.headers);
    if (carriesPayment(header)) return this.#exchange({});
    await this.#keepBody();
    let answer = await this.payer.first(this.#method, bareUrl(this.#url), header, this.#exchange({}));
    if (!asksForMoney(answer)) return answer;
    let url = finalUrl(answer);
    if (url === undefined && this.#kept.again) {
      // It does not tell whether it was redirected: a request that follows nothing does.
      answer = await this.#exchange(this.#notFollowing());
      if (!asksForMoney(answer)) return answer;
    }
    url ??= this.#url;
    const challenge = await this.#challenge(answer, url);
    if (!challenge) return answer;
    const moved = bareUrl(url) !== bareUrl(this.#url);
    const { purser = {} } = this.config;
    return this.payer.settle<AxiosAnswer>({
      method: this.#method,
      asked: this.#url,
      url,
      header: readerOf(this.config.headers),
      refused: answer,
      challenge,
      signal: this.#signal,
      idempotencyKey: ownKey(header("Idempotency-Key"), undefined),
      terms: { ...purser, paidTimeout: longer(purser.paidTimeout ?? this.payer.settings.paidTimeout, this.config["timeout"]) },
      blocked: blocked(this.#kept, moved, this.#method),
      body: () => bodyOf(this.#kept.again?.()),
      send: (payment, signal) => this.#sendPaid(url, moved, payment, signal),
      discardRefused: () => {
        discard(answer.data);
      },
    });
  }

  async #challenge(answer: AxiosAnswer, url: URL): Promise<Challenge | undefined> {
    try {
      const { auth, headers } = this.config;
      const taken = Boolean(auth ?? this.#url.username) || readerOf(headers)("Authorization") !== null;
      return await challengeOf(answer, this.payer.settings.challengeHeaders, taken);
    } catch (error) {
      if (isPurserError(error)) error.learn({ url: url.origin + url.pathname, host: url.host, response: answer });
      throw error;
    }
  }

  async #keepBody(): Promise<void> {
    const given = this.config.data;
    if (given === undefined || given === null) return;
    const { body, again, type } = await keep(given, this.payer.settings.bodyLimit, this.#signal);
    if (type !== undefined) {
      const others = Object.entries(plain(this.config.headers)).filter(([name]) => name.toLowerCase() !== "content-type");
      this.config.headers = { ...Object.fromEntries(others), "Content-Type": type };
    }
    // The form of bytes that all adapters take; it is a copy of its own.
    const bytes = body instanceof Uint8Array ? body.buffer : undefined;
    this.#kept.first = bytes ?? body;
    this.#kept.again = bytes ? () => bytes : again;
  }

  /** Returns the body of the next request. */
  #body(): unknown {
    const { first, again } = this.#kept;
    this.#kept.first = undefined;
    return first ?? again?.();
  }

  async #sendPaid(
    url: URL,
    moved: boolean,
    payment: { name: string; value: string },
    signal: AbortSignal,
  ): Promise<Sent<AxiosAnswer>> {
    const there = moved ? this.#at(url) : {};
    const given = there.headers ?? this.config.headers;
    const headers = { ...plain(given), [payment.name]: payment.value };
    const how = this.#notFollowing();
    if (inPage()) how["fetchOptions"] = { ...plain(how["fetchOptions"]), cache: "no-store" };
    else {
      const asked = notCached(readerOf(given)("Cache-Control"));
      for (const name of Object.keys(headers)) if (/^(cache-control|pragma)$/i.test(name)) Reflect.deleteProperty(headers, name);
      Object.assign(headers, { "Cache-Control": asked, Pragma: "no-cache" });
    }
    // The signal fires when time is up.
    const answer = await this.#exchange({ ...there, ...how, headers, signal, cancelToken: undefined, timeout: 0 });
    return this.#sent(answer, url, signal, this.config.maxRedirects !== 0);
  }

  #sent(answer: AxiosAnswer, url: URL, signal: AbortSignal, follow: boolean): Sent<AxiosAnswer> {
    const header = readerOf(answer.headers);
    const sent: Sent<AxiosAnswer> = {
      answer,
      status: answer.status,
      header,
      page: async () => (await dataOf(answer)) ?? new Uint8Array(),
      discard: () => {
        discard(answer.data);
      },
    };
    if (!follow) return sent;
    if (answer.status === 0) return { ...sent, hidden: true };
    const location = isRedirect(answer.status) ? header("Location") : null;
    if (location === null) return sent;
    return { ...sent, follow: () => this.#follow(answer, new URL(location, url), signal) };
  }

  async #follow(answer: AxiosAnswer, to: URL, signal: AbortSignal): Promise<Sent<AxiosAnswer>> {
    discard(answer.data);
    const there = this.#at(to);
    if (becomesGet(answer.status, this.#method)) {
      const headers = Object.entries(plain(there.headers)).filter(([name]) => !/^content-/i.test(name));
      Object.assign(there, { method: "get", data: undefined, headers: Object.fromEntries(headers) });
    }
    return this.#sent(await this.#exchange({ ...there, signal, cancelToken: undefined }), to, signal, false);
  }

  /** Makes the settings of the request to another address than it named. */
  #at(url: URL): Config {
    const there: Config = { url: url.href, baseURL: undefined, params: undefined };
    const headers = plain(this.config.headers);
    if (url.origin !== this.#url.origin) {
      for (const name of Object.keys(headers)) {
        if (credentials.includes(name.toLowerCase())) Reflect.deleteProperty(headers, name);
      }
      there.auth = undefined;
    }
    return { ...there, headers };
  }

  /** Makes settings with which nothing is followed. XMLHttpRequest always follows, so fetch takes its place. */
  #notFollowing(): Config {
    const { adapter } = this.config;
    const own = typeof adapter === "function";
    const there: Config = { maxRedirects: 0, fetchOptions: { ...plain(this.config["fetchOptions"]), redirect: "manual" } };
    return !own && typeof (globalThis as { XMLHttpRequest?: unknown }).XMLHttpRequest === "function"
      ? { ...there, adapter: "fetch" }
      : there;
  }

  /** Sends once. Any answer is a result; what validateStatus makes of it is kept for the end. */
  async #exchange(changes: Config): Promise<AxiosAnswer> {
    const config: Config = { ...this.config, ...("data" in changes ? {} : { data: this.#body() }), ...changes };
    config["transformRequest"] = [same];
    config["transformResponse"] = [same];
    try {
      return await this.bare.request(config);
    } catch (error) {
      this.#clean(error, this.config);
      const answer = answerIn(error);
      if (!answer) throw error;
      this.#errors.set(answer, error);
      return answer;
    }
  }

  /** Takes the payment out of what axios tells about a request. */
  #clean(error: unknown, config: Config): void {
    if (typeof error !== "object" || error === null || isPurserError(error) || !("config" in error)) return;
    error.config = config;
    if ("request" in error) error.request = undefined;
    const answer = answerIn(error);
    if (answer) answer.config = config;
  }
}

function answerIn(error: unknown): AxiosAnswer | undefined {
  const answer = typeof error === "object" && error !== null && "response" in error ? error.response : undefined;
  return typeof answer === "object" && answer !== null && "status" in answer ? (answer as AxiosAnswer) : undefined;
}

async function challengeOf(answer: AxiosAnswer, extra: readonly string[], taken: boolean): Promise<Challenge | undefined> {
  const header = readerOf(answer.headers);
  const challenge = headerChallenge(header, extra) ?? mppChallenge(header, taken);
  if (challenge) return challenge;
  const data = await dataOf(answer);
  return data && bodyChallenge(data);
}

/** Returns an answer's body. */
async function dataOf({ data }: AxiosAnswer): Promise<Uint8Array | undefined> {
  if (typeof data === "string") return new TextEncoder().encode(data);
  if (data instanceof ArrayBuffer || data instanceof Blob) return new Uint8Array(await new Response(data).arrayBuffer());
  return data instanceof Uint8Array ? data : undefined; // a stream stays the program's
}

/** Finds the URL of an answer, in the ways of Node and of XMLHttpRequest. */
function finalUrl(answer: AxiosAnswer): URL | undefined {
  const request = answer.request as { res?: { responseUrl?: unknown }; responseURL?: unknown } | undefined;
  const found = request?.res?.responseUrl ?? request?.responseURL;
  if (typeof found !== "string" || !found) return undefined;
  const url = new URL(found);
  url.username = url.password = ""; // of the setting `auth`
  return url;
}

function readerOf(headers: unknown): HeaderReader {
  const all = plain(headers);
  return (name) => {
    const found = Object.entries(all).find(([key]) => key.toLowerCase() === name.toLowerCase())?.[1];
    return typeof found === "string" ? found : found instanceof Array ? found.join(", ") : null;
  };
}

/** Copies the members of headers or other settings. */
function plain(from: unknown): Record<string, unknown> {
  if (typeof from !== "object" || from === null) return {};
  if ("toJSON" in from && typeof from.toJSON === "function") return { ...(from as { toJSON(): object }).toJSON() };
  return { ...from };
}

/** Returns the body as it is recognized: an object that no transform has made a text of is one here. */
function bodyOf(data: unknown): RequestInit["body"] {
  const plain = typeof data === "object" && data !== null && [Object.prototype, Array.prototype, null].includes(Object.getPrototypeOf(data) as object | null);
  return plain ? JSON.stringify(data) : (data as RequestInit["body"]);
}

/** Makes one signal of axios' two ways of giving up. */
function signalOf(config: Config): AbortSignal | undefined {
  const signal = config.signal instanceof AbortSignal ? config.signal : undefined;
  const token = config["cancelToken"] as { promise?: Promise<unknown>; reason?: unknown } | undefined;
  if (!token?.promise) return signal;
  const controller = new AbortController();
  const abort = (reason: unknown) => {
    controller.abort(reason);
  };
  if (token.reason) abort(token.reason);
  else void token.promise.then(abort);
  if (signal?.aborted) abort(signal.reason);
  else {
    signal?.addEventListener(
      "abort",
      () => {
        abort(signal.reason);
      },
      { once: true },
    );
  }
  return controller.signal;
}
