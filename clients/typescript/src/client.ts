// One object for a program: paid requests and purser's API.
import { Api } from "./api.js";
import { type Closable, type PayingFetch, type PayingInit, payingFetch } from "./fetch.js";
import type { Fetch, PaymentOptions, PurserOptions } from "./options.js";
import { Payer } from "./purchase.js";

export interface ClientOptions extends Omit<PaymentOptions, "apiKey">, PurserOptions {
  /** Sends the requests to sellers. Default: the global fetch, as it is when the client is made. */
  fetch?: Fetch | undefined;
}

/** Options of one request. */
export interface ClientRequest extends PayingInit {
  /** A plain object or list is sent as JSON. */
  json?: unknown;
}

/** Paid requests and purser's API, with one key. */
export interface Client extends Closable, Pick<Api, "keys" | "wallets" | "pay" | "quote" | "limits" | "payments" | "spend"> {
  /** A drop-in for the global fetch. */
  readonly fetch: PayingFetch;
  get(url: string | URL, init?: PayingInit): Promise<Response>;
  post(url: string | URL, init?: ClientRequest): Promise<Response>;
  request(method: string, url: string | URL, init?: ClientRequest): Promise<Response>;
}

/** Makes a client. Errors are TypeErrors that name the option. */
export function createClient(options: ClientOptions): Client {
  const seller = options.fetch ?? globalThis.fetch;
  if (typeof seller !== "function") throw new TypeError("there is no global fetch: fetch must be given");
  const payer = new Payer(options);
  const fetch = payingFetch(seller, payer);
  const { keys, wallets, pay, quote, limits, payments, spend } = new Api(payer.connection, payer.settings.payTimeout);
  const request = (method: string, url: string | URL, { json, ...init }: ClientRequest = {}) => {
    if (json === undefined) return fetch(url, { ...init, method });
    const headers = new Headers(init.headers);
    if (!headers.has("Content-Type")) headers.set("Content-Type", "application/json");
    return fetch(url, { ...init, method, headers, body: JSON.stringify(json) });
  };
  return {
    fetch,
    request,
    get: (url, init) => request("GET", url, init),
    post: (url, init) => request("POST", url, init),
    keys,
    wallets,
    pay,
    quote,
    limits,
    payments,
    spend,
    close: (ms) => payer.close(ms),
  };
}
