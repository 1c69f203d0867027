// The same for `undici.request`, which is known here by its form only: it is no dependency.
import { streamed } from "./body.js";
import { discard } from "./http.js";
import { longer, needKey, type PaymentOptions, type Terms } from "./options.js";
import { Payer } from "./purchase.js";
import { type Seen, Shown } from "./shown.js";

/** The members of an answer that are needed here. */
interface Data {
  statusCode: number;
  headers: Record<string, string | string[] | undefined>;
  body: AsyncIterable<unknown> & { constructor: { from?: (source: AsyncIterable<unknown>) => object } };
  context?: { history?: URL[] };
}

/** The members of a request's options that are needed here. */
interface Given {
  method?: string;
  headers?: unknown;
  query?: Record<string, unknown>;
  body?: unknown;
  signal?: unknown;
  headersTimeout?: number;
  idempotencyKey?: string;
  purser?: Terms;
}

/**
 * Makes `undici.request` pay for 402s: `const request = wrap(undici.request, options)`. Its options may have `purser` with
 * what is said of one request. Redirects of paid answers are the program's.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- undici's own types differ between versions
export function wrap<F extends (url: any, options?: any) => Promise<any>>(request: F, options: PaymentOptions): F {
  needKey(options);
  const payer = new Payer(options);
  const paying = (url: string | URL, { query, purser, idempotencyKey, ...rest }: Given = {}): Promise<Data> => {
    const target = new URL(url);
    for (const [name, value] of Object.entries(query ?? {})) {
      for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) target.searchParams.append(name, String(one));
    }
    const shown = new Shown<Data>(async (answer) => {
      const { status: statusCode, headers } = answer;
      const stand: Data = { ...last, statusCode, headers: Object.fromEntries(headers) };
      stand.body = again(last.body, pieces(await answer.text()));
      return stand;
    });
    let last!: Data; // the first answer, before anything can stand for it
    let first = true;
    const send = async (to: unknown, init: RequestInit = {}) => {
      const { method, body, signal } = init;
      const headers = Object.fromEntries(new Headers(init.headers));
      // An interceptor that follows would take the payment along. The signal fires when time is up.
      const follow = first ? {} : { maxRedirections: 0, headersTimeout: 0 };
      first = false;
      last = (await request(to, { ...rest, ...follow, method, headers, body, signal })) as Data;
      return shown.show(last, seenOf(last, String(to)));
    };
    const { method = rest.body === undefined || rest.body === null ? "GET" : "PUT", headers, body, signal } = rest;
    const paidTimeout = longer(purser?.paidTimeout ?? payer.settings.paidTimeout, rest.headersTimeout);
    const own = { redirect: "manual", idempotencyKey, ...purser, paidTimeout };
    const init = { method, headers: headersOf(headers), body: streamed(body), signal: signalOf(signal), ...own };
    const given = Object.entries(init).filter(([, value]) => value !== undefined);
    return shown.request(payer, send, target.href, Object.fromEntries(given));
  };
  return paying as F;
}

/** Makes a signal of an emitter, which undici takes as well. */
function signalOf(given: unknown): unknown {
  if (typeof given !== "object" || given === null || !("once" in given)) return given;
  const controller = new AbortController();
  (given as { once(event: string, listener: () => void): void }).once("abort", () => {
    controller.abort();
  });
  return controller.signal;
}

function seenOf(data: Data, asked: string): Seen {
  const history = data.context?.history ?? [];
  const { statusCode: status, headers, body } = data;
  const replace = (whole: AsyncIterable<unknown>) => {
    data.body = again(data.body, whole);
  };
  return { status, headers, body, url: history.at(-1)?.href ?? asked, redirected: history.length > 1, replace };
}

/** A body of the same kind with other content, for an answer that was looked into. */
function again(body: Data["body"], content: AsyncIterable<unknown>): Data["body"] {
  const stream = body.constructor.from?.(content) ?? content;
  const whole = () => new Response(new ReadableStream({ start: (c) => fill(c, stream as AsyncIterable<Uint8Array>) }));
  const methods = Object.fromEntries(
    (["text", "json", "arrayBuffer", "blob"] as const).map((name) => [name, () => whole()[name]() as unknown]),
  );
  const dump = () => {
    discard(stream);
    return Promise.resolve();
  };
  return Object.assign(stream, methods, { dump }) as unknown as Data["body"];
}

async function fill(c: ReadableStreamDefaultController<unknown>, stream: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const piece of stream) c.enqueue(piece);
  c.close();
}

// eslint-disable-next-line @typescript-eslint/require-await -- a stream of one piece
async function* pieces(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text);
}

/** Headers in one of the forms that undici takes. */
function headersOf(given: unknown): Headers {
  const headers = new Headers();
  if (Array.isArray(given) && typeof given[0] === "string") {
    for (let i = 0; i + 1 < given.length; i += 2) headers.append(String(given[i]), String(given[i + 1]));
    return headers;
  }
  const entries = given && typeof given === "object" && Symbol.iterator in given ? (given as Iterable<[string, unknown]>) : Object.entries(given ?? {});
  for (const [name, value] of entries) {
    for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) if (one !== undefined) headers.append(name, String(one));
  }
  headers.delete("Content-Length");
  return headers;
}
