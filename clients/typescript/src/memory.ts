// Idempotency keys of logical requests that did not come to an end (BEHAVIOUR.md §6).

const lifetime = 7 * 60_000; // longer than a payment is valid
const maxEntries = 256;
const maxBytes = 16 << 20;

/** What makes two requests the same. */
export interface Identity {
  readonly method: string;
  /** Without fragments: what was asked for, and what answered 402. One in common is enough. */
  readonly urls: readonly string[];
  /** Undefined when the body cannot be compared: such a request is not remembered. */
  readonly body: Uint8Array | undefined;
}

/** A key that was remembered, and since when. */
export interface Remembered {
  readonly key: string;
  readonly since: number;
}

interface Entry extends Remembered {
  readonly method: string;
  readonly urls: readonly string[];
  readonly body: Uint8Array;
}

/** The memory of one client. */
export class Memory {
  #entries: Entry[] = []; // the oldest first
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Takes the oldest key of equal requests out, or returns undefined. */
  take(id: Identity): Remembered | undefined {
    this.#forget();
    const { body } = id;
    if (body === undefined) return undefined;
    const i = this.#entries.findIndex((e) => e.method === id.method && e.urls.some((url) => id.urls.includes(url)) && equal(e.body, body));
    return i < 0 ? undefined : this.#entries.splice(i, 1)[0];
  }

  /** Remembers a key, from now on or with the time it had. */
  put(id: Identity, key: string, since = this.#now()): void {
    if (id.body === undefined || id.body.length > maxBytes) return;
    this.drop(key); // else it would serve two requests at a time
    this.#entries.push({ method: id.method, urls: id.urls, body: id.body, key, since });
    this.#entries.sort((a, b) => a.since - b.since);
    this.#forget();
  }

  /** Forgets a key, whatever it was for. Returns since when it was remembered. */
  drop(key: string): number | undefined {
    const since = this.#entries.find((e) => e.key === key)?.since;
    this.#entries = this.#entries.filter((e) => e.key !== key);
    return since;
  }

  #forget(): void {
    const oldest = this.#now() - lifetime;
    this.#entries = this.#entries.filter((e) => e.since > oldest);
    let bytes = this.#entries.reduce((sum, e) => sum + e.body.length, 0);
    let dropped = this.#entries.length > maxEntries ? this.#entries.length - maxEntries : 0;
    for (const [i, e] of this.#entries.entries()) {
      if (i >= dropped && bytes <= maxBytes) break;
      bytes -= e.body.length;
      dropped = Math.max(dropped, i + 1);
    }
    this.#entries.splice(0, dropped);
  }
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
