// Idempotency keys of logical requests that did not come to an end (BEHAVIOUR.md §6).

const lifetime = 7 * 60_000; // longer than a payment is valid
const maxEntries = 256;
/** The bounds of a memory of requests that were answered, for those that say that they repeat one. */
export const answeredFor = [2 * 60_000, 32] as const;

/** The members by which two requests are the same. */
export interface Identity {
  readonly method: string;
  /** Without fragments: what was asked for, and what answered 402. One in common is enough. */
  readonly urls: readonly string[];
  /** Of the body. Bodies themselves are not kept. */
  readonly digest: string;
  /** The number that a call of MCP has in its session: no client uses one twice but for a repeat. */
  readonly call?: string | undefined;
}

/** A key that was remembered, and since when. */
export interface Remembered {
  readonly key: string;
  readonly since: number;
}

/** The memory of one client. */
export class Memory {
  #entries: (Remembered & Identity)[] = []; // the oldest first

  constructor(
    private readonly now: () => number = () => performance.now(),
    private readonly lifespan: number = lifetime,
    private readonly most: number = maxEntries,
  ) {}

  /** Forgets the requests to a URL, whatever their body. */
  forget(method: string, url: string): void {
    this.#entries = this.#entries.filter((e) => e.method !== method || !e.urls.includes(url));
  }

  /** Takes the oldest key of equal requests out, or returns undefined. */
  take(id: Identity): (Remembered & Identity) | undefined {
    this.#forget();
    const same = (e: Identity) => e.method === id.method && e.digest === id.digest && e.urls.some((url) => id.urls.includes(url));
    const i = this.#entries.findIndex(same);
    return i < 0 ? undefined : this.#entries.splice(i, 1)[0];
  }

  /** Remembers a key, from now on or with the time it had. */
  put(id: Identity, key: string, since = this.now()): void {
    this.drop(key); // else it would serve two requests at a time
    this.#entries.push({ ...id, key, since });
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
    const oldest = this.now() - this.lifespan;
    this.#entries = this.#entries.filter((e) => e.since > oldest).slice(-this.most);
  }
}

/** Makes a key with a random UUID; crypto.randomUUID exists in secure contexts only. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, "client-$1-$2-4$3-a$4-$5");
}
