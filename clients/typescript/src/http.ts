// One exchange with purser. The API key leaves the program here and nowhere else.
import { utf8 } from "./base64.js";
import { piecesOf } from "./body.js";
import { Gathering } from "./bytes.js";
import { text, isObject } from "./challenge.js";
import type { Fetch, PurserOptions } from "./options.js";
import { deadline, orAborted } from "./time.js";

const maxAnswer = 4 << 20;

/** An answer of purser. */
export interface Answer {
  readonly status: number;
  /** Its JSON object; empty when it is none. */
  readonly body: Record<string, unknown>;
  readonly retryAfter: string | null;
}

/** A question to purser. */
export interface Ask {
  readonly method: "GET" | "POST" | "DELETE";
  /** Below the base URL, with query. */
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** The connection to one purser with one key. */
export class Connection {
  readonly #key: string | undefined;
  readonly #base: string;
  readonly #fetch: Fetch;

  constructor(o: PurserOptions) {
    if (o.apiKey !== undefined && !/^[\x21-\x7e]{1,256}$/.test(o.apiKey)) {
      throw new TypeError("apiKey must be 1 to 256 visible characters");
    }
    this.#key = o.apiKey;
    this.#base = baseOf(o.baseUrl);
    this.#fetch = o.purserFetch ?? globalThis.fetch;
    if (typeof this.#fetch !== "function") throw new TypeError("there is no global fetch: purserFetch must be given");
  }

  /** Asks once. It rejects when there is no answer within ms milliseconds, or a redirect, which is not followed. */
  async ask(q: Ask, ms: number, outer: AbortSignal | undefined): Promise<Answer> {
    const limit = deadline(ms, "purser", outer);
    try {
      return await orAborted(this.#exchange(q, limit.signal), limit.signal);
    } finally {
      limit.clear();
    }
  }

  async #exchange(q: Ask, signal: AbortSignal): Promise<Answer> {
    const fetch = this.#fetch; // called as a function: browsers refuse it as a method
    const headers: Record<string, string> = { ...q.headers, Accept: "application/json" };
    if (this.#key !== undefined) headers["X-Api-Key"] = this.#key;
    const init: RequestInit = { method: q.method, headers, redirect: "manual", signal };
    if (q.body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(q.body);
    }
    const response = await fetch(this.#base + q.path, init);
    const { status } = response;
    if (status < 200 || (status >= 300 && status < 400)) {
      discard(response.body);
      throw new Error("purser answered with a redirect");
    }
    const body = await readAll(response, maxAnswer);
    return { status, body: parse(body), retryAfter: response.headers.get("Retry-After") };
  }
}

function baseOf(given: string | URL): string {
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    throw new TypeError("baseUrl is not a URL");
  }
  if ((url.protocol !== "http:" && url.protocol !== "https:") || url.search || url.hash || url.username || url.password) {
    throw new TypeError("baseUrl must be http or https, without user, query or fragment");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

async function readAll(response: Response, limit: number): Promise<Uint8Array> {
  const { bytes, complete } = await readUpTo(response.body, limit);
  if (!complete) throw new Error("purser's answer is too long");
  return bytes;
}

/**
 * Reads a stream to its end or a little over the limit, and then cancels it. `more` sees each piece and may end the reading;
 * the signal does so as an error.
 */
export async function readUpTo(
  stream: ReadableStream<Uint8Array> | AsyncIterable<unknown> | null,
  limit: number,
  more: (piece: Uint8Array) => boolean = () => true,
  signal?: AbortSignal,
): Promise<{ bytes: Uint8Array; complete: boolean }> {
  const gathering = new Gathering();
  if (!stream) return { bytes: gathering.all(), complete: true };
  const pieces = piecesOf(stream);
  // Not waited for: a clone's other half has to be read first.
  const stop = () => void Promise.resolve(pieces.return?.()).catch(() => undefined);
  for (;;) {
    let next: IteratorResult<unknown>;
    try {
      next = await (signal ? orAborted(pieces.next(), signal) : pieces.next());
    } catch (error) {
      stop();
      throw error;
    }
    if (next.done) return { bytes: gathering.all(), complete: true };
    const piece = next.value as Uint8Array;
    gathering.add(piece);
    if (gathering.length > limit || !more(piece)) {
      stop();
      return { bytes: gathering.all(), complete: false };
    }
  }
}

interface Cuttable {
  locked?: boolean;
  cancel?: () => Promise<void>;
  destroy?: () => unknown;
  on?: (event: "error", listener: () => void) => unknown;
}

/** Cuts an answer's body that is not needed, so that its connection is free. It may be a stream of Node's. */
export function discard(body: unknown): void {
  if (typeof body !== "object" || body === null) return;
  const stream = body as Cuttable;
  if (stream.destroy) {
    stream.on?.("error", () => undefined); // some fail when they are destroyed
    stream.destroy();
  } else if (stream.cancel && !stream.locked) stream.cancel().catch(() => undefined);
}

function parse(bytes: Uint8Array): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(utf8(bytes));
    return isObject(body) ? body : {};
  } catch {
    return {};
  }
}

/** The error text of an answer. */
export function errorOf(a: Answer): string {
  return text(a.body["error"]);
}

/** Reports whether an error proves that purser got nothing. Only Node says so, in the cause of fetch's TypeError. */
export function connectionRefused(error: unknown): boolean {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  return typeof cause === "object" && cause !== null && "code" in cause && cause.code === "ECONNREFUSED";
}
