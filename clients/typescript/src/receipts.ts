// Receipts on their way to purser, and what else a payer says of its payments.
import { type Settings, usdc } from "./options.js";
import type { PaymentSummary } from "./purchase.js";
import { atMost } from "./time.js";

const most = 256; // receipts that wait to be reported

/** The background work of one payer. */
export class Receipts {
  readonly #work = new Set<Promise<unknown>>();
  readonly #end = new AbortController();
  #closed = false;

  /** Begins a job, or returns undefined: purser finds on the chain what a receipt says. */
  add(job: (signal: AbortSignal) => Promise<void>): Promise<void> | undefined {
    if (this.#closed || this.#work.size >= most) return undefined;
    const work = job(this.#end.signal).finally(() => this.#work.delete(work));
    this.#work.add(work);
    return work;
  }

  /** Waits so many milliseconds at most for all jobs, and ends the others. None is begun any more. */
  async close(ms: number): Promise<void> {
    this.#closed = true;
    await atMost(ms, Promise.allSettled(this.#work));
    this.#end.abort();
  }
}

/** Does what the program asked for beside its request. Whatever fails in it cannot lose a paid answer. */
export function aside(work: () => unknown, failed: (error: unknown) => unknown = () => undefined): void {
  const last = () => undefined;
  new Promise((resolve) => {
    resolve(work());
  })
    .catch(failed)
    .catch(last);
}

/** Tells the program of a payment. */
export function tell({ onPayment, logger }: Settings, p: PaymentSummary): void {
  const { id, amount, payTo, host } = p;
  const price = amount !== undefined && /^[0-9]{1,78}$/.test(amount) ? `${usdc(amount)} USDC` : "an amount that it does not say";
  aside(() => logger?.info(`purser: payment ${id ?? "without id"} of ${price} to ${payTo ?? "a payee that it does not say"} at ${host}`));
  aside(
    () => onPayment?.(p),
    (error) => logger?.warn("purser: onPayment failed", error),
  );
}
