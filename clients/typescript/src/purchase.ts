// One purchase: the payment that purser hands out, and sending it to the seller until the outcome is known. This is the
// only place that decides whether money may move (BEHAVIOUR.md §2 to §7); how requests are sent is the callers' affair.
import { Api, order, type PayRequest } from "./api.js";
import { announced, saysRepeat, unasked } from "./asked.js";
import { blind, endings, type Paid, isOpen, isPassing, paidOf, paymentOf as paymentIn, refusal } from "./answers.js";
import type { Bill, Sent } from "./bill.js";
import { contentOf } from "./body.js";
import { Budget } from "./budget.js";
import { checkCaps, largestOf, signedAsOffered } from "./caps.js";
import { type HeaderReader, isObject, receiptOf, receiptReason, text, wordsOf } from "./challenge.js";
import {
  DryRunError,
  type ErrorFacts,
  NotReplayableError,
  PurserError,
  PurserUnreachableError,
  RefusedByCallerError,
  RejectedError,
  type Resume,
  UnclearError,
  isPurserError,
} from "./errors.js";
import { Connection, connectionRefused } from "./http.js";
import { Jobs, type Order } from "./jobs.js";
import { answeredFor, type Identity, Memory, newKey, type Remembered } from "./memory.js";
import { asked as asksBy, signedTerms } from "./mpp.js";
import { bareUrl, cap, parseAmount, longer, time, type PaymentOptions, type PurserOptions, type Settings, settings, usdc } from "./options.js";
import { aside, Receipts, tell } from "./receipts.js";
import { headerTooLarge, slim } from "./slim.js";
import { trace } from "./spans.js";
import { atMost, deadline, longestWait, orAborted, reasonOf, retryAfter, sleep } from "./time.js";
import { arrives, type ToolCall } from "./toolcall.js";

/** The payment behind an answer. */
export interface PaymentSummary {
  /** purser's id; undefined when it did not name one. */
  readonly id: string | undefined;
  /** `open`, `settled` or `void`, as far as purser has said. */
  readonly state: string | undefined;
  /** The transaction on chain, "" while it is not known. */
  readonly transaction: string;
  readonly settled: boolean;
  readonly idempotencyKey: string;
  /** The signed amount, in the asset's smallest unit; undefined when the payment does not say. See `usdc`. */
  readonly amount: string | undefined;
  /** The host that got the request, with a port. */
  readonly host: string;
  /** The payee; undefined when the payment does not say. */
  readonly payTo: string | undefined;
  readonly task: string | undefined;
}

const delays = [250, 1000]; // before the second and the third try of /v1/pay, in milliseconds
const resendDelay = 500;
const repeats = 2; // of a credential that a seller answers with a new challenge
const receiptTimeout = 10_000; // of one try
const closeWithin = 5000;

// With these the seller may have taken the payment or not.
const unclearStatus = new Set([500, 502, 503, 504]);

const summaries = new WeakMap<object, PaymentSummary>();

/** Returns the payment behind an answer; undefined when it was not paid for. */
export function paymentOf(answer: object): PaymentSummary | undefined {
  return summaries.get(answer);
}

/** Lets another form of an answer tell what the answer was paid with. */
export function passOn(from: object, to: object): void {
  const summary = summaries.get(from);
  if (summary) summaries.set(to, summary);
}

/** Pays for logical requests with one key. */
export class Payer {
  readonly connection: Connection;
  readonly settings: Settings;
  readonly memory = new Memory();
  readonly answered = new Memory(undefined, ...answeredFor);
  readonly jobs = new Jobs();
  readonly receipts = new Receipts();
  readonly budget: Budget;

  constructor(o: Omit<PaymentOptions, "apiKey"> & PurserOptions) {
    this.connection = new Connection(o);
    this.settings = settings(o);
    this.budget = new Budget(this.settings.budget);
  }

  /** Waits for receipts on their way, and drops those that take longer. */
  close(ms = closeWithin): Promise<void> {
    return this.receipts.close(time("close", ms, 0));
  }

  /** Waits for the first answer. A repeat that comes after a first try without a payment is no repeat of an earlier purchase. */
  async first<R extends { status: number }>(method: string, url: string, header: HeaderReader, sent: Promise<R>): Promise<R> {
    let status = 0;
    try {
      const answer = await sent;
      status = answer.status;
      return answer;
    } finally {
      if (status !== 402 && !saysRepeat(header)) this.answered.forget(method, url);
    }
  }

  /** Brings a logical request to an answer, or throws. Pays at most once. */
  async settle<R extends object>(bill: Bill<R>): Promise<R> {
    const agreed = this.#agreed(bill);
    const { tracer, task } = agreed;
    const began = Date.now();
    let purchase: Purchase<R> | undefined;
    const ended = (error?: unknown) => {
      aside(() => {
        if (tracer) trace(tracer, began, { host: bill.url.host, task }, purchase?.summary, error);
      });
    };
    try {
      const what = unasked(bill.method, bill.url, bill.header);
      if (what) throw new RefusedByCallerError(`Nobody reads what ${what} would buy, so it was not paid for.`, "unasked");
      if (bill.blocked) throw new NotReplayableError(bill.blocked);
      const { dryRun } = bill.terms;
      const job = dryRun ? undefined : this.jobs.at(bill.asked, bill.url);
      if (!job) await checkCaps(agreed, bill.url, bill.method, bill.challenge, bill.signal);
      const { digest, call } = await contentOf(bill);
      const booked = call?.site ?? bareUrl(bill.url);
      if (dryRun) throw await this.#quoted(bill, agreed, booked);
      // Either URL is enough: a seller that leads each repeat to a new one is not to be paid for each.
      const urls = [bareUrl(bill.asked), bareUrl(bill.url)];
      const id: Identity = { method: bill.method, urls, digest: call ? `${digest} ${task ?? ""}` : digest, call: call?.id };
      bill.signal?.throwIfAborted();
      // Nothing is waited for between taking a remembered key and running.
      const given = job?.key ?? bill.idempotencyKey;
      const last = this.answered.take(id);
      const remembered = job ?? (given === undefined ? (this.memory.take(id) ?? (saysRepeat(bill.header) || (call?.id && last?.call === call.id) ? last : undefined)) : undefined);
      const key = given ?? remembered?.key ?? newKey();
      if (!job) this.#setAside(bill, id, key, remembered);
      purchase = new Purchase(this, agreed, { ...bill, idempotencyKey: given }, booked, id, key, remembered?.since, last !== undefined && remembered === last, job, call);
      const answer = await purchase.run(bill.signal);
      ended();
      return answer;
    } catch (error) {
      if (isPurserError(error)) {
        const { origin, pathname, host } = bill.url;
        const asked = new Set(bill.challenge.offers.map((offer) => offer.amount));
        const amount = asked.size === 1 ? [...asked][0] : undefined;
        const response = error.code === "unclear" ? undefined : bill.refused;
        error.learn({ url: origin + pathname, host, amount, response });
      }
      ended(error);
      throw error;
    }
  }

  /** Takes the price from the budget. A key that stands for a payment already costs nothing more. */
  #setAside(bill: Bill<object>, id: Identity, key: string, remembered: Remembered | undefined): void {
    const price = largestOf(bill.challenge);
    if (this.budget.take(key, price)) return;
    if (remembered) this.memory.put(id, key, remembered.since);
    const [asked, left, all] = [price, this.budget.left, this.budget.limit].map((amount) => `${usdc(amount)} USDC`);
    throw new RefusedByCallerError(`${asked} would pass this client's budget of ${all}; ${left} left.`, "budget");
  }

  /** The settings with what the program says of one request. */
  #agreed({ terms: { maxAmount, task, payTimeout, paidTimeout }, header }: Bill<object>): Settings {
    const { settings } = this;
    const given = maxAmount === undefined ? undefined : cap(maxAmount);
    const own = settings.maxAmount;
    const smaller = given === undefined || (own !== undefined && own < given) ? own : given;
    return {
      ...settings,
      maxAmount: smaller,
      task: task ?? settings.task,
      payTimeout: time("payTimeout", payTimeout ?? settings.payTimeout, 1),
      paidTimeout: longer(time("paidTimeout", paidTimeout ?? settings.paidTimeout, 1), announced(header)),
    };
  }

  /** Ends a dry run. */
  async #quoted<R extends object>(bill: Bill<R>, agreed: Settings, booked: string): Promise<PurserError> {
    const api = new Api(this.connection, agreed.payTimeout);
    const quote = await api.quote(ordered(bill, agreed, booked, bill.idempotencyKey), bill.signal ? { signal: bill.signal } : {});
    const what = quote.repeats
      ? `payment ${quote.repeats.id} of ${quote.price} would be repeated, and nothing new paid`
      : `${quote.price} on ${quote.network} to ${quote.payTo} would be paid`;
    return new DryRunError(`dry run: ${what}.`, quote);
  }

  /** Tells purser of a receipt, twice if need be. Returns what it then says of the payment. */
  async report(id: string, receipt: string, signal: AbortSignal): Promise<Record<string, unknown> | undefined> {
    const path = `/v1/payments/${encodeURIComponent(id)}/receipt`;
    for (let n = 0; n < 2; n++) {
      try {
        const ms = Math.min(receiptTimeout, this.settings.payTimeout);
        const a = await this.connection.ask({ method: "POST", path, body: { receipt } }, ms, signal);
        if (a.status < 500) return isObject(a.body["payment"]) ? a.body["payment"] : undefined;
      } catch {
        if (signal.aborted) return undefined;
      }
    }
    return undefined;
  }
}

class Purchase<R extends object> {
  /** The payment, for the program, once purser has handed it out. */
  summary: PaymentSummary | undefined;
  #paid: Paid | undefined;
  #sent = false;
  #busy = false;
  #answered = false;
  #open: boolean; // a payment may stand under the key
  #earlier: boolean; // it may be one of an earlier request
  #since: number | undefined; // when the key was remembered first

  constructor(
    private readonly payer: Payer,
    private readonly agreed: Settings,
    private readonly bill: Bill<R>,
    /** The URL for purser's books. */
    private readonly booked: string,
    private readonly id: Identity,
    private readonly key: string,
    since: number | undefined,
    /** The key is one of a request that was answered. */
    private readonly repeats = false,
    /** The order that is asked about. */
    private readonly job?: Order,
    /** The call of MCP that is paid for. */
    private readonly call?: ToolCall,
  ) {
    this.#paid = job?.paid;
    this.summary = job?.summary;
    this.#open = this.#earlier = since !== undefined;
    this.#since = since;
  }

  readonly resume: Resume<R> = async (o) => {
    const { memory } = this.payer;
    if (this.#answered) throw new Error("this payment has brought its answer already");
    if (this.#busy) throw new Error("this payment is being sent already");
    this.#open = this.#earlier = true;
    this.#since = memory.drop(this.key) ?? this.#since;
    return this.run(o?.signal);
  };

  async run(signal: AbortSignal | undefined): Promise<R> {
    this.#busy = true;
    let sent: Sent<R>;
    try {
      this.#paid ??= await this.#obtain(signal);
      this.summary ??= this.#summarize(this.#paid);
      const signed = parseAmount(this.summary.amount ?? "");
      if (signed !== undefined) this.payer.budget.settle(this.key, signed);
      sent = await this.#deliver(this.#paid, signal);
    } catch (thrown) {
      const error = this.#said(thrown);
      let ended = false;
      let since: number | undefined;
      if (isPurserError(error)) {
        const { paymentId, header } = this.#paid ?? {};
        error.learn({ idempotencyKey: this.key, paymentId, amount: header && signedTerms(header.value)?.value });
        ended = endings.has(error.code);
        const signed = error.code === "refused-by-caller" && this.payer.settings.settlement === "payer";
        if (!ended && (this.#earlier || signed)) error.learn({ moneyMayHaveMoved: true });
        if (blind.has(error.code)) {
          since = this.#since;
          ended = !this.#open;
        } else if (error.code === "refused-by-caller") {
          // Not sent to the seller now; it may have been earlier, or purser has settled it.
          since = this.#since;
          ended = !this.#open && this.payer.settings.settlement === "seller";
        }
      }
      // Nothing stands under the key: its price is there for others again.
      const unasked = !isPurserError(error) || error.code === "purser-unreachable";
      if (!this.#earlier && (ended || (unasked && !this.#open && !this.#paid))) this.payer.budget.settle(this.key, 0n);
      const again = this.repeats && isPurserError(error) && error.code === "rejected";
      this.#pause(again ? this.payer.answered : ended ? undefined : this.payer.memory, again ? this.#since : since);
      if (this.summary && !this.job && isPurserError(error)) tell(this.agreed, this.summary);
      throw error;
    }
    if (!this.job) tell(this.agreed, this.summary);
    const { job, key, bill } = this;
    const order = job ?? { key, paid: this.#paid, summary: this.summary, since: performance.now() };
    aside(() => this.payer.jobs.note(sent, bill.url, order, !job && (bill.method === "GET" || bill.method === "HEAD")));
    this.#answered = sent.status < 400;
    const { call } = this;
    if (this.#answered && call) {
      aside(async () => {
        if (!(await arrives(sent, call))) this.#lost();
      });
    }
    this.#pause(this.#answered ? this.payer.answered : this.payer.memory);
    return sent.answer;
  }

  /** Turns a failure behind a payment into an error that tells of it: the program must not take it for unpaid. */
  #said(thrown: unknown): unknown {
    const moved = this.#sent || (this.#paid && this.payer.settings.settlement === "payer");
    if (isPurserError(thrown) || !moved) return thrown;
    return this.#unclear("The paid request failed.", { cause: thrown });
  }

  /** The answer broke off on its way: the same request again gets the same payment. */
  #lost(): void {
    if (this.payer.answered.drop(this.key) !== undefined) this.#pause(this.payer.memory);
  }

  /** No send is under way any more; the key is remembered for a repeat. */
  #pause(memory?: Memory, since?: number): void {
    this.#busy = false;
    if (!memory || this.bill.idempotencyKey !== undefined) return;
    if (memory === this.payer.answered) memory.take(this.id); // the last one counts
    memory.put(this.id, this.key, since);
  }

  /** Has purser pay: several tries under one key, so that a lost answer costs nothing. */
  async #obtain(signal: AbortSignal | undefined): Promise<Paid> {
    const { settings, connection } = this.payer;
    const question = { method: "POST", path: "/v1/pay", ...order(ordered(this.bill, this.agreed, this.booked, this.key)) } as const;
    let asked = false; // a try may have reached purser
    for (let n = 0; ; n++) {
      let failure: PurserError;
      let wait: number | undefined;
      try {
        const a = await connection.ask(question, this.agreed.payTimeout, signal);
        const paid = paidOf(a, this.bill.header("Authorization") !== null);
        if (paid) return this.#checked(paid);
        if (!isPassing(a)) {
          const no = refusal(a);
          if (!asked || settings.settlement === "seller" || !blind.has(no.code)) throw no;
          throw this.#unclear("purser gave no usable answer at first, and may have paid.", { status: no.status, cause: no });
        }
        asked = this.#open = true;
        failure = isOpen(a)
          ? this.#unclear("The outcome of this payment is not known yet.", { paymentId: paymentIn(a).id, status: a.status })
          : refusal(a);
        wait = retryAfter(a.retryAfter);
      } catch (error) {
        if (isPurserError(error)) throw error;
        if (!connectionRefused(error)) asked = this.#open = true;
        if (signal?.aborted) throw this.#givenUp(signal, asked && settings.settlement === "payer");
        failure = new PurserUnreachableError("purser cannot be reached.", { cause: error });
      }
      const delay = delays[n];
      if (delay === undefined || (wait ?? 0) > longestWait) {
        if (failure.code === "unclear" || settings.settlement === "seller" || !asked) throw failure;
        throw this.#unclear("purser gave no usable answer and may have paid.", { status: failure.status, cause: failure });
      }
      await sleep(wait ?? delay, signal).catch(() => {
        throw this.#givenUp(signal, asked && settings.settlement === "payer");
      });
    }
  }

  #checked(paid: Paid): Paid {
    if (signedAsOffered(this.agreed, this.bill.challenge, paid.header.value)) return paid;
    throw new RefusedByCallerError("purser signed other terms than the seller offers.", "signed-terms", {
      paymentId: paid.paymentId,
      amount: signedTerms(paid.header.value)?.value,
    });
  }

  /** Sends the payment until the seller has answered it, or throws. */
  async #deliver(paid: Paid, signal: AbortSignal | undefined): Promise<Sent<R>> {
    if (signal?.aborted) throw this.#givenUp(signal, this.#sent || this.payer.settings.settlement === "payer");
    this.bill.discardRefused();
    const first = await this.#sendOn(paid, signal);
    const reason = await this.#report(first);
    if (first.hidden) throw this.#unclear("The seller redirected the paid request to where this runtime does not tell.");
    let last = first;
    if (first.follow) {
      try {
        last = await first.follow(signal);
      } catch (cause) {
        throw this.#unclear("The seller redirected the paid request, and following failed.", { cause });
      }
    }
    if (last.status === 402) {
      const why = reason || (await wordsOf(last.header, last.page));
      throw new RejectedError<R>(
        `The seller answered the paid request with another 402${why ? `: ${why}` : ""}.`,
        why || undefined,
        this.resume,
        { response: last.answer },
      );
    }
    if (this.summary) summaries.set(last.answer, this.summary);
    return last;
  }

  /** Sends the payment. A new challenge of MPP does not ask for another one: the same goes again. */
  async #sendOn(paid: Paid, signal: AbortSignal | undefined): Promise<Sent<R>> {
    for (let n = 0; ; n++) {
      const sent = await this.#send(paid, signal);
      const wait = retryAfter(sent.header("Retry-After")) ?? resendDelay * 2 ** n;
      const asks = sent.status === 402 && paid.header.value.startsWith("Payment ") && asksBy(sent.header).length > 0;
      if (!asks || n >= repeats || wait > longestWait) return sent;
      sent.discard();
      await sleep(wait, signal).catch(() => {
        throw this.#givenUp(signal, true);
      });
    }
  }

  /** The same payment, once and as often again as the settings say. */
  async #send(paid: Paid, signal: AbortSignal | undefined): Promise<Sent<R>> {
    const { paidTimeout, resends } = this.agreed;
    let { header } = paid;
    for (let n = 0; ; n++) {
      let sent: Sent<R> | undefined;
      let failure: unknown;
      const limit = deadline(paidTimeout, "the seller", signal);
      try {
        this.#sent = true;
        sent = await orAborted(this.bill.send(header, limit.signal), limit.signal);
      } catch (error) {
        failure = error;
      } finally {
        limit.clear();
      }
      if (sent && header === paid.header && (await headerTooLarge(sent.status, sent.header, sent.page))) {
        const value = slim(header.value);
        if (value !== undefined) {
          header = { ...header, value };
          sent.discard();
          n--; // it is the same send
          continue;
        }
      }
      if (sent && (!unclearStatus.has(sent.status) || receiptOf(sent.header) !== null)) return sent;
      if (!sent && signal?.aborted) throw this.#givenUp(signal, true, failure);
      const wait = sent && retryAfter(sent.header("Retry-After"));
      if (n >= resends || (wait ?? 0) > longestWait) {
        if (sent) return sent;
        throw this.#unclear("The seller's answer to the paid request was lost.", { cause: failure });
      }
      sent?.discard();
      await sleep(wait ?? resendDelay * 2 ** n, signal).catch(() => {
        throw this.#givenUp(signal, true);
      });
    }
  }

  /** Reports a receipt without holding up the answer for long. Returns the reason that the receipt gives. */
  async #report(sent: Sent<R>): Promise<string> {
    const receipt = receiptOf(sent.header);
    if (receipt === null) return "";
    const { receiptWait, waitUntil, logger } = this.agreed;
    const { summary } = this;
    if (summary?.id !== undefined) {
      const { id } = summary;
      const work = this.payer.receipts.add(async (signal) => {
        const payment = await this.payer.report(id, receipt, signal);
        if (!payment) return;
        const state = text(payment["state"]) || summary.state;
        Object.assign(summary, { state, settled: state === "settled", transaction: text(payment["transaction"]) });
      });
      if (work) {
        aside(() => waitUntil?.(work));
        if (receiptWait > 0) await atMost(receiptWait, work);
      } else aside(() => logger?.warn(`purser: the receipt of payment ${id} is not reported: closed, or too many wait`));
    }
    return receiptReason(receipt);
  }

  #summarize(paid: Paid): PaymentSummary {
    const { paymentId: id, state, transaction, settled } = paid;
    const { value: amount, to: payTo } = signedTerms(paid.header.value) ?? {};
    const { host } = this.bill.url;
    return { id, state, transaction, settled, idempotencyKey: this.key, amount, payTo, host, task: this.agreed.task };
  }

  /** The error of a request that the program gave up: its own reason as long as no money can move. */
  #givenUp(signal: AbortSignal | undefined, moved: boolean, cause: unknown = reasonOf(signal)): Error {
    return moved ? this.#unclear("The request was given up after the payment had left.", { cause }) : reasonOf(signal);
  }

  #unclear(message: string, facts: ErrorFacts = {}): UnclearError<R> {
    return new UnclearError<R>(message, this.resume, { ...facts, idempotencyKey: this.key });
  }
}

/** Makes the order for purser. */
function ordered(bill: Bill<object>, agreed: Settings, requestUrl: string, idempotencyKey: string | undefined): PayRequest {
  return {
    paymentRequiredHeader: bill.challenge.sent,
    requestUrl,
    settlement: agreed.settlement,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(agreed.task === undefined ? {} : { task: agreed.task }),
    ...(agreed.maxAmount === undefined ? {} : { maxAmount: agreed.maxAmount }),
  };
}
