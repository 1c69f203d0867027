// Lets clients pay that have no fetch: the paying fetch is shown their answers in the form that it knows.
import { piecesOf } from "./body.js";
import { hide, isPurserError, purserErrorOf } from "./errors.js";
import { payingFetch, type PayingInit } from "./fetch.js";
import type { Fetch } from "./options.js";
import { type Payer, passOn } from "./purchase.js";

/** The members of an answer that are needed here. */
export interface Seen {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  /** Read at most once. */
  readonly body: AsyncIterable<unknown> | Iterable<unknown>;
  /** The URL that answered. */
  readonly url: string;
  readonly redirected: boolean;
  /** Gives the program a body in place of one that was looked into. */
  readonly replace?: (body: AsyncIterable<unknown>) => void;
}

/** One client's answers behind the forms that were shown of them. */
export class Shown<A extends object> {
  readonly #answers = new WeakMap<object, A>();
  readonly #standIn: (answer: Response) => Promise<A>;

  /** Takes what makes the client's own answer of a 402 that stands for an error. */
  constructor(standIn: (answer: Response) => Promise<A>) {
    this.#standIn = standIn;
  }

  /** Pays for a request that `send` sends. */
  request(payer: Payer, send: Fetch, url: string, init: PayingInit): Promise<A> {
    return this.#own(payingFetch(send, payer)(url, init));
  }

  /** The outcome with the client's own answers in the place of what was shown. */
  async #own(outcome: Promise<Response>): Promise<A> {
    try {
      return await this.#real(await outcome);
    } catch (error) {
      if (!isPurserError(error)) throw error;
      const answer = this.#answers.get(error.response as object);
      if (answer) Object.defineProperty(error, "response", { value: answer });
      if ("resume" in error) {
        const { resume } = error;
        Object.defineProperty(error, "resume", { value: (o?: { signal?: AbortSignal }) => this.#own(resume(o)) });
      }
      throw error;
    }
  }

  /** Shows an answer. */
  show(answer: A, seen: Seen): Response {
    const headers = new Headers();
    for (const [name, value] of Object.entries(seen.headers)) {
      for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) headers.append(name, one);
    }
    const { status, body, url, redirected, replace } = seen;
    let rest = body;
    const clone = () => {
      const [first, second] = twice(rest);
      rest = second;
      replace?.(second);
      return { body: first };
    };
    const shown = { status, headers, body, url, redirected, type: "basic", clone } as unknown as Response;
    this.#answers.set(shown, answer);
    return shown;
  }

  async #real(shown: Response): Promise<A> {
    const known = this.#answers.get(shown);
    if (known) {
      passOn(shown, known);
      return known;
    }
    const answer = await this.#standIn(shown);
    const error = purserErrorOf(shown);
    if (error) hide(error, answer);
    return answer;
  }
}

/** Makes two streams of one: the first to look into it, the second for the program. */
function twice(stream: AsyncIterable<unknown> | Iterable<unknown>): [AsyncIterable<unknown>, AsyncIterable<unknown>] {
  const pieces = Symbol.asyncIterator in stream ? piecesOf(stream) : stream[Symbol.iterator]();
  const seen: Promise<IteratorResult<unknown>>[] = [];
  const nth = (n: number) => (seen[n] ??= Promise.resolve(pieces.next()));
  const reading = () => {
    let n = 0;
    return { [Symbol.asyncIterator]: () => ({ next: () => nth(n++) }) };
  };
  return [reading(), reading()];
}
