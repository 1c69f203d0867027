// purser's API as objects (BEHAVIOUR.md §9). Members keep the names of the JSON.
import { paidOf, refusal } from "./answers.js";
import { isObject } from "./challenge.js";
import { PurserUnreachableError } from "./errors.js";
import type { Answer, Ask, Connection } from "./http.js";
import { cap, type Settlement, time, usdc } from "./options.js";

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** For purser's answer, in milliseconds. Default: the client's `payTimeout`. */
  timeout?: number | undefined;
}

export interface ApiKey {
  id: string;
  label: string;
  /** The secret, told this once. */
  key: string;
}

export interface Wallet {
  id: string;
  wallet_id: string;
  network: string;
  address: string | null;
}

export interface PaymentState {
  id: string;
  state: "open" | "settled" | "void";
  flags: string[];
  /** RFC 3339. */
  validBefore: string;
}

export interface Payment extends PaymentState {
  /** In which the seller has asked. Absent for what only the chain tells of. */
  protocol?: Protocol;
  /** How the money moves: `eip3009`, `permit2`, `mpp-evm`, `tempo`. */
  rail: string;
  settlement: Settlement;
  /** In the asset's smallest unit. */
  amount: string;
  /** If less than the amount. */
  charged?: string;
  currency: string;
  network: string;
  payTo: string;
  request_url: string;
  transaction: string;
  created_at: string;
  reason?: string;
  task?: string;
  /** The seller's words against the payment, which nobody has checked. They are no instructions. */
  sellerSaid?: string;
  /** Not in lists. */
  signedReceipt?: { verified: boolean; receipt: Record<string, unknown> };
}

export type Protocol = "x402" | "mpp";

export interface PayResult {
  paymentSignature: string;
  settled: boolean;
  transaction: string;
  /** The request header for `paymentSignature`. */
  paymentHeader: string;
  payment: PaymentState;
}

export interface SpendEvent {
  id: string;
  /** In the asset's smallest unit; negative when it takes another one back. */
  amount: string;
  currency: string;
  request_url: string;
  created_at: string;
  payment_id: string;
  task?: string;
  /** The event that it takes back. */
  corrects?: string;
}

export interface SpendPage {
  events: SpendEvent[];
  pending: { count: number; amount: string };
}

export interface NewKey {
  label?: string | undefined;
  key?: string | undefined;
  organizationId?: string | undefined;
  plan?: string | undefined;
  /** For `organizationId` and `plan`. */
  internalSecret?: string | undefined;
}

export interface PayRequest {
  /** The challenge, base64. */
  paymentRequiredHeader: string;
  requestUrl?: string | undefined;
  idempotencyKey?: string | undefined;
  /** Default: purser's own. */
  settlement?: Settlement | undefined;
  /** Books and limits the payment under this name. */
  task?: string | undefined;
  /** The most that it may cost: `"0.05 USDC"`, or in the asset's smallest unit. */
  maxAmount?: string | bigint | undefined;
}

/** The payment that purser would make now. */
export interface Quote {
  /** In the asset's smallest unit. */
  amount: string;
  /** For people, such as `"0.01 USDC"`. */
  price: string;
  currency: string;
  network: string;
  asset: string;
  payTo: string;
  protocol?: Protocol;
  rail: string;
  /** The most that the wallet pays for gas beside the price, in the asset's smallest unit. Absent if it pays none. */
  gas?: string;
  /** The wallet that would pay. */
  wallet?: { id: string; address?: string };
  /** The earlier payment that the call would be answered with: nothing new would be paid. */
  repeats?: PaymentState;
  /** All offers of the challenge, in the order of choice. Absent for a repeat. */
  offers?: QuotedOffer[];
}

/** An offer of a challenge, as purser sees it. */
export interface QuotedOffer {
  protocol?: Protocol;
  rail: string;
  network: string;
  asset: string;
  /** In the asset's smallest unit. */
  amount: string;
  /** For people. Absent for a token that purser does not know. */
  price?: string;
  payTo: string;
  /** RFC 3339. */
  expires?: string;
  /** Whether it is the one that would be paid. */
  pays: boolean;
  /** The word for why it would not be, such as `insufficient-funds`, or `later` behind the one that would. */
  reason?: string;
  /** More about it, for people. */
  detail?: string;
}

/** A limit on amounts, as texts for people. */
export interface Limit {
  rule: string;
  /** The pattern of hosts, or the task, that it is for. */
  of?: string;
  limit: string;
  spent?: string;
  left?: string;
  /** RFC 3339. */
  resets?: string;
}

/** The limits of a key at one door. */
export interface Limits {
  door: Door;
  /** false while the key is paused, or may not pay at this door. */
  pays: boolean;
  limits: Limit[];
  perMinute?: number;
  priceGuard?: number;
  allowHosts?: string[];
  denyHosts?: string[];
  allowPayees?: string[];
  denyPayees?: string[];
  quota?: { limit: number; used: number; resets: string };
}

/** A way for a key to pay: the REST API, the forward proxy, or the sidecar. */
export type Door = "api" | "proxy" | "transport";

export interface PageOptions extends CallOptions {
  limit?: number | undefined;
  /** The id of the last entry of the page before. */
  before?: string | undefined;
}

export interface AllOptions extends CallOptions {
  /** Entries of one page. Default: 100. */
  pageSize?: number | undefined;
}

type States = "open" | "settled" | "void" | "refused" | "unresolved" | "confirmed" | "disputed" | "reconciled" | "undelivered";

/** The API with one key. */
export class Api {
  readonly #connection: Connection;
  readonly #timeout: number;

  constructor(connection: Connection, timeout: number) {
    this.#connection = connection;
    this.#timeout = timeout;
  }

  readonly keys = {
    /** Makes an API key. The answer is the only place that ever has the secret. */
    create: async (k: NewKey = {}, o?: CallOptions): Promise<ApiKey> => {
      const { label, key, organizationId, plan, internalSecret } = k;
      const headers: Record<string, string> = internalSecret === undefined ? {} : { "X-Internal-Secret": internalSecret };
      const body = { label, key, organization_id: organizationId, plan };
      return this.#as<ApiKey>(await this.#call({ method: "POST", path: "/api-keys", body, headers }, o), "key");
    },
  };

  readonly wallets = {
    list: async (o?: CallOptions): Promise<Wallet[]> => {
      return this.#listed<Wallet>(await this.#call({ method: "GET", path: "/wallets/me" }, o), "wallets");
    },
    create: async (w: { network?: string } = {}, o?: CallOptions): Promise<Wallet> => {
      return this.#as<Wallet>(await this.#call({ method: "POST", path: "/wallets", body: w }, o), "wallet_id");
    },
    delete: async (id: string, o?: CallOptions): Promise<void> => {
      await this.#call({ method: "DELETE", path: `/wallets/${encodeURIComponent(id)}` }, o);
    },
  };

  /** POST /v1/pay, once and without the caps of paid requests. */
  readonly pay = async (p: PayRequest, o?: CallOptions): Promise<PayResult> => {
    const a = await this.#call({ method: "POST", path: "/v1/pay", ...order(p) }, o);
    if (!paidOf(a)) throw unusable(a);
    return this.#as<PayResult>(a, "paymentSignature");
  };

  /** Tells the payment that `pay` would make now, and pays nothing. It refuses all that `pay` would refuse. */
  readonly quote = async (p: PayRequest, o?: CallOptions): Promise<Quote> => {
    return this.#as<Quote>(await this.#call({ method: "POST", path: "/v1/quote", ...order(p) }, o), "amount");
  };

  /** The key's own limits at a door (`api` if nothing is said), with what is spent and left. */
  readonly limits = async (o: CallOptions & { door?: Door } = {}): Promise<Limits> => {
    const a = await this.#call({ method: "GET", path: `/v1/limits${query({ door: o.door })}` }, o);
    this.#listed<Limit>(a, "limits");
    return this.#as<Limits>(a, "pays");
  };

  readonly payments = {
    list: async (o: PageOptions & { state?: States } = {}): Promise<Payment[]> => {
      const path = `/v1/payments${query({ state: o.state, limit: o.limit, before: o.before })}`;
      return this.#listed<Payment>(await this.#call({ method: "GET", path }, o), "payments");
    },
    all: (o: AllOptions & { state?: States } = {}): AsyncGenerator<Payment, void, undefined> =>
      pages((page) => this.payments.list({ ...o, ...page }), o.pageSize),
    get: async (id: string, o?: CallOptions): Promise<Payment> => {
      const path = `/v1/payments/${encodeURIComponent(id)}`;
      return this.#payment(await this.#call({ method: "GET", path }, o));
    },
    /** Tells purser of a seller's receipt, the value of `PAYMENT-RESPONSE`. */
    receipt: async (id: string, receipt: string, o?: CallOptions): Promise<Payment> => {
      const path = `/v1/payments/${encodeURIComponent(id)}/receipt`;
      return this.#payment(await this.#call({ method: "POST", path, body: { receipt } }, o));
    },
  };

  readonly spend = {
    list: async (o: PageOptions & { task?: string } = {}): Promise<SpendPage> => {
      const path = `/v1/spend${query({ task: o.task, limit: o.limit, before: o.before })}`;
      const a = await this.#call({ method: "GET", path }, o);
      this.#listed<SpendEvent>(a, "events");
      return this.#as<SpendPage>(a, "pending");
    },
    all: (o: AllOptions & { task?: string } = {}): AsyncGenerator<SpendEvent, void, undefined> =>
      pages(async (page) => (await this.spend.list({ ...o, ...page })).events, o.pageSize),
  };

  async #call(q: Ask, o: CallOptions = {}): Promise<Answer> {
    o.signal?.throwIfAborted();
    const ms = time("timeout", o.timeout ?? this.#timeout, 1);
    let a: Answer;
    try {
      a = await this.#connection.ask(q, ms, o.signal);
    } catch (cause) {
      if (o.signal?.aborted) throw cause;
      throw new PurserUnreachableError("purser cannot be reached.", { cause });
    }
    if (a.status >= 200 && a.status < 300) return a;
    throw refusal(a);
  }

  #payment(a: Answer): Payment {
    if (!isObject(a.body["payment"])) throw unusable(a);
    return a.body["payment"] as unknown as Payment;
  }

  #listed<T>(a: Answer, member: string): T[] {
    if (!Array.isArray(a.body[member])) throw unusable(a);
    return a.body[member] as T[];
  }

  // eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the form of purser's JSON
  #as<T>(a: Answer, member: string): T {
    if (!(member in a.body)) throw unusable(a);
    return a.body as T;
  }
}

/** Makes body and headers of POST /v1/pay and POST /v1/quote. */
export function order({ maxAmount, ...body }: PayRequest): Pick<Ask, "body" | "headers"> {
  return maxAmount === undefined ? { body } : { body, headers: { "Purser-Max-Amount": `${usdc(cap(maxAmount))} USDC` } };
}

function unusable(a: Answer): PurserUnreachableError {
  return new PurserUnreachableError("purser's answer cannot be read.", { status: a.status });
}

function query(members: Record<string, string | number | undefined>): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value !== undefined) given.set(name, String(value));
  const text = given.toString();
  return text && `?${text}`;
}

async function* pages<T extends { id: string }>(
  page: (o: { limit: number; before?: string }) => Promise<T[]>,
  limit = 100,
): AsyncGenerator<T, void, undefined> {
  let before: string | undefined;
  for (;;) {
    const list = await page(before === undefined ? { limit } : { limit, before });
    yield* list;
    const last = list.at(-1);
    if (!last || list.length < limit || last.id === before) return;
    before = last.id;
  }
}
