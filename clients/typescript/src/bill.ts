// What a purchase is about, and what it gets of the seller, in the form that all HTTP clients share.
import type { Challenge, HeaderReader } from "./challenge.js";
import type { Terms } from "./options.js";

/** An answer of the seller to a paid request. */
export interface Sent<R> {
  readonly answer: R;
  readonly status: number;
  readonly header: HeaderReader;
  /** Follows the redirect that the answer is, without the payment. Absent when it is none, or is not to be followed. */
  readonly follow?: (signal: AbortSignal | undefined) => Promise<Sent<R>>;
  /** A redirect whose target the runtime hides. */
  readonly hidden?: boolean;
  /** The beginning of its body, the answer staying readable. */
  readonly page: () => Promise<Uint8Array>;
  /** The whole body once more, the answer staying readable. Absent where that cannot be. */
  readonly copy?: () => ReadableStream<Uint8Array> | AsyncIterable<unknown> | null;
  /** The answer is not needed. */
  discard(): void;
}

/** A logical request that was answered with a challenge. */
export interface Bill<R> {
  readonly method: string;
  /** The URL that the program asked for. */
  readonly asked: URL;
  /** The URL that answered 402. */
  readonly url: URL;
  /** Reads the headers of the request. */
  readonly header: HeaderReader;
  readonly refused: R;
  readonly challenge: Challenge;
  readonly signal: AbortSignal | undefined;
  /** The program's own key. */
  readonly idempotencyKey: string | undefined;
  readonly terms: Terms;
  /** The reason why the request cannot be sent again, if there is one. */
  readonly blocked: string | undefined;
  /** The body, once more. */
  body(): RequestInit["body"];
  /** Sends the request with a payment and follows no redirect. Heeds this signal only, also while the body is read. */
  send(header: { name: string; value: string }, signal: AbortSignal): Promise<Sent<R>>;
  discardRefused(): void;
}
