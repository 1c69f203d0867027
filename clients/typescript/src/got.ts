// The same for got, which is known here by its form only: it is no dependency.
import type { PayingInit } from "./fetch.js";
import { needKey, type PaymentOptions } from "./options.js";
import { Payer, type Terms } from "./purchase.js";
import { Shown } from "./shown.js";
import { either } from "./time.js";

/** What is needed of got's options. */
interface GotOptions {
  method: string;
  headers: Record<string, string | string[] | undefined>;
  url: URL | string;
  prefixUrl: unknown;
  body: unknown;
  signal: AbortSignal | undefined;
  followRedirect: unknown;
  responseType: string;
  context: { purser?: Terms };
  hooks: object;
  merge(changes: object): void;
}

/** What is needed of got's answers. */
interface GotAnswer {
  statusCode: number;
  headers: Record<string, string | string[] | undefined>;
  url: string;
  redirectUrls: readonly unknown[];
  rawBody: Uint8Array & { constructor: { from(text: string): GotAnswer["rawBody"] } };
  body: unknown;
  request: { options: GotOptions; once(event: string, listener: () => void): void; off(event: string, listener: () => void): void };
}

interface Got {
  (url: undefined, options: undefined, defaults: GotOptions): Promise<GotAnswer>;
  extend(options: object): unknown;
}

const paymentHeader = /^(?:payment-signature|x-payment)$/i;

/**
 * Makes a got instance that pays for 402s. Its requests may have `context: { purser }` with what is said of one request.
 * Streams (`got.stream`) are left alone, and bodies that got cannot send again are not paid for.
 */
export function wrap<G>(got: G, options: PaymentOptions): G {
  needKey(options);
  const payer = new Payer({ ...options, bodyLimit: 0 }); // a stream has been sent when a hook sees its answer
  const bare = got as Got;
  const afterResponse = (answer: GotAnswer) => (answer.statusCode === 402 ? settled(payer, bare, answer) : answer);
  return bare.extend({ hooks: { afterResponse: [afterResponse] } }) as G;
}

async function settled(payer: Payer, got: Got, refused: GotAnswer): Promise<GotAnswer> {
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
      return show(refused);
    }
    const inner = new (options.constructor as new (url: undefined, o: undefined, defaults: GotOptions) => GotOptions)(undefined, undefined, options);
    inner.hooks = { ...inner.hooks, afterResponse: [] }; // the program's run for the answer that it gets
    inner.merge({ retry: { limit: 0 }, throwHttpErrors: false, followRedirect: false, resolveBodyOnly: false, prefixUrl: "" });
    inner.method = init.method ?? "GET";
    inner.headers = Object.fromEntries(new Headers(init.headers));
    inner.url = String(to);
    inner.body = init.body ?? undefined;
    inner.signal = init.signal ?? undefined;
    const answer = await got(undefined, undefined, inner).catch((error: unknown) => {
      throw plain(error);
    });
    const { headers } = answer.request.options;
    for (const name of Object.keys(headers)) if (paymentHeader.test(name)) Reflect.deleteProperty(headers, name);
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
    const init: PayingInit = { method: options.method, headers, signal, redirect, ...options.context.purser };
    if (options.body !== undefined) init.body = options.body as BodyInit;
    return await shown.request(payer, send, String(options.url), init);
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
