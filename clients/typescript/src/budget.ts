// The budget of one client (BEHAVIOUR.md §2).

const most = 4096; // keys whose repeats are recognized

/** Counts payments by idempotency key, so that a repeat costs nothing. */
export class Budget {
  readonly limit: bigint;
  readonly #keys = new Map<string, bigint>();
  #spent = 0n;

  /** Without a limit it allows all. */
  constructor(limit: bigint = 2n ** 256n) {
    this.limit = limit;
  }

  /** The rest, in the smallest unit. */
  get left(): bigint {
    return this.limit - this.#spent;
  }

  /** Sets an amount aside before purser is asked. Returns whether there was so much left. */
  take(key: string, amount: bigint): boolean {
    if (this.#keys.has(key)) return true;
    if (amount > this.left) return false;
    this.#spent += amount;
    this.#keys.set(key, amount);
    for (const oldest of this.#keys.keys()) if (this.#keys.size > most) this.#keys.delete(oldest);
    return true;
  }

  /** Counts what was signed for instead: 0 if nothing was. */
  settle(key: string, amount: bigint): void {
    const taken = this.#keys.get(key);
    if (taken === undefined) return;
    this.#spent += amount - taken;
    if (amount === 0n) this.#keys.delete(key);
    else this.#keys.set(key, amount);
  }
}
