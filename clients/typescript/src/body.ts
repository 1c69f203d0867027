// Request bodies that have to be sent a second time (BEHAVIOUR.md §5).
import { Gathering } from "./bytes.js";
import { orAborted } from "./time.js";

/** A body for the first request, and what is known for a second one. */
export interface Kept {
  /** For the first request, and for the second if it is not blocked. */
  readonly body: RequestInit["body"];
  /** The body is a stream that was not read to its end. */
  readonly streamed: boolean;
}

/** Prepares a body: one-shot ones are read up to the limit, others are copied where the program could change them. */
export async function keep(body: unknown, limit: number, signal: AbortSignal | undefined): Promise<Kept> {
  if (body instanceof URLSearchParams) return kept(new URLSearchParams(body));
  if (body instanceof ArrayBuffer) return kept(body.slice(0));
  if (ArrayBuffer.isView(body)) return kept(new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice());
  if (body instanceof FormData) {
    const copy = new FormData();
    body.forEach((value, name) => {
      copy.append(name, value);
    });
    return kept(copy);
  }
  if (!isOneShot(body)) return { body: body as RequestInit["body"], streamed: isOldStream(body) };
  if (limit === 0) return { body: body as RequestInit["body"], streamed: true };
  const source = body instanceof ReadableStream ? fromStream(body) : body[Symbol.asyncIterator]();
  return read(source, limit, signal);
}

const kept = (body: RequestInit["body"]): Kept => ({ body, streamed: false });

/** The bytes by which a request is recognized when the program repeats it; undefined when they cannot be had. */
export async function bytesOf(body: RequestInit["body"], limit = 16 << 20): Promise<Uint8Array | undefined> {
  if (body === null || body === undefined) return new Uint8Array();
  if (body instanceof Blob) return body.size > limit ? undefined : new Uint8Array(await body.arrayBuffer());
  if (body instanceof FormData) {
    const all = new Gathering();
    for (const [name, value] of entries(body)) {
      const content = typeof value === "string" ? new TextEncoder().encode(value) : await bytesOf(value, limit);
      if (!content || all.length + content.length > limit) return undefined;
      const kind = typeof value === "string" ? ["", ""] : [value.name, value.type];
      const head = new TextEncoder().encode(JSON.stringify([name, ...kind, content.length]));
      all.add(head);
      all.add(content);
    }
    return all.all();
  }
  return new Uint8Array(await new Response(body).arrayBuffer()); // text and bytes: a copy
}

function entries(form: FormData): [string, FormDataEntryValue][] {
  const all: [string, FormDataEntryValue][] = [];
  form.forEach((value, name) => {
    all.push([name, value]);
  });
  return all;
}

/** A stream of Node's first kind, which gives its content away once, and not to us. */
function isOldStream(body: unknown): boolean {
  return typeof body === "object" && body !== null && "pipe" in body && typeof body.pipe === "function";
}

function isOneShot(body: unknown): body is AsyncIterable<unknown> | ReadableStream {
  if (typeof body !== "object" || body === null || body instanceof Blob) return false;
  if (body instanceof ReadableStream) return true;
  return Symbol.asyncIterator in body && typeof body[Symbol.asyncIterator] === "function";
}

function fromStream(stream: ReadableStream<unknown>): AsyncIterator<unknown, unknown> {
  const reader = stream.getReader();
  return {
    next: () => reader.read(),
    // Also while a read is waiting, which a generator would wait for.
    return: async () => {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
}

async function read(source: AsyncIterator<unknown>, limit: number, signal: AbortSignal | undefined): Promise<Kept> {
  const start = new Gathering();
  const stop = () => void Promise.resolve(source.return?.()).catch(() => undefined);
  while (start.length <= limit) {
    let next: IteratorResult<unknown>;
    try {
      next = await (signal ? orAborted(source.next(), signal) : source.next());
    } catch (error) {
      stop();
      throw error;
    }
    if (next.done) return kept(start.all());
    start.add(chunk(next.value));
  }
  const stream = new ReadableStream<Uint8Array>({
    start(c) {
      c.enqueue(start.all());
    },
    async pull(c) {
      const next = await source.next();
      if (next.done) c.close();
      else c.enqueue(chunk(next.value));
    },
    cancel: stop,
  });
  return { body: stream, streamed: true };
}

function chunk(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (typeof value === "string") return new TextEncoder().encode(value);
  throw new TypeError("a stream of a request body must be of bytes");
}
