// Request bodies that have to be sent a second time (BEHAVIOUR.md §5).
import type { Bill } from "./bill.js";
import { binaryOf } from "./base64.js";
import { Gathering } from "./bytes.js";
import type { HeaderReader } from "./challenge.js";
import { Digest } from "./digest.js";
import { orAborted } from "./time.js";
import { type ToolCall, toolCall } from "./toolcall.js";

type Body = RequestInit["body"];

/** A body for the first request, and the way to one for a second. */
export interface Kept {
  /** For the first request. */
  readonly body: Body;
  /** Makes it once more; undefined when it is a stream that is gone after the first request. */
  readonly again: (() => Body) | undefined;
  /** Its content type, where the body itself knew it and no more does. */
  readonly type?: string;
}

/**
 * Prepares a body: one-shot ones are read up to the limit, others are copied where the program could change them. Files
 * that Node streams from a path are opened again instead.
 */
export async function keep(body: unknown, limit: number, signal: AbortSignal | undefined): Promise<Kept> {
  if (isOldStream(body)) {
    const file = fileOf(body);
    if (file) return { body: body as unknown as Body, again: file };
    if (isFormStream(body)) return readForm(body, limit, signal);
  } else if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return kept(bytesOf(body)?.slice());
  else if (isParams(body)) return kept(new URLSearchParams(body.toString()));
  else if (isForm(body)) return kept(copied(body));
  if (!isOneShot(body)) return isOldStream(body) ? { body: body as unknown as Body, again: undefined } : kept(body as Body);
  if (limit === 0) return { body: body as Body, again: undefined };
  return read(body, limit, signal);
}

const kept = (body: Body): Kept => ({ body, again: () => body });

/** What a request is recognized by. */
export interface Content {
  /** Of the body, or of the call in it. Bodies themselves may be large. */
  readonly digest: string;
  /** The call of MCP that it is. */
  readonly call: ToolCall | undefined;
}

/** Digests a body, so that a repeat of the request is recognized. */
export async function contentOf(bill: Pick<Bill<object>, "method" | "url" | "header" | "body">): Promise<Content> {
  const { method, url, header } = bill;
  const digest = new Digest();
  const body = bill.body();
  const bytes = bytesOf(body);
  const call = bytes && toolCall(method, url, header, bytes);
  await feed(digest, call?.content ?? (bytes ? withoutBoundary(bytes, header) : body));
  return { digest: digest.hex(), call };
}

/** Leaves out the boundary of a form, which clients make anew for each request. */
function withoutBoundary(bytes: Uint8Array, header: HeaderReader): Uint8Array {
  const [, boundary] = /^multipart\/.*boundary="?([^";]+)/i.exec(header("Content-Type") ?? "") ?? [];
  return boundary === undefined ? bytes : encoded(binaryOf(bytes).replaceAll(boundary, ""));
}

const encoded = (text: string) => new TextEncoder().encode(text);

/** Returns a text or an array as bytes; undefined for all other bodies. */
function bytesOf(body: unknown): Uint8Array | undefined {
  if (typeof body === "string") return encoded(body);
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  return ArrayBuffer.isView(body) ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength) : undefined;
}

async function feed(digest: Digest, body: unknown): Promise<void> {
  if (body === null || body === undefined) return;
  const bytes = bytesOf(body);
  if (bytes) digest.add(bytes);
  else if (isForm(body) && !isOldStream(body)) {
    for (const [name, value] of entriesOf(body)) {
      const content = typeof value === "string" ? encoded(value) : value;
      const about = content instanceof Uint8Array ? ["", "", content.length] : [content.name, content.type, content.size];
      digest.add(encoded(JSON.stringify([name, ...about])));
      await feed(digest, content);
    }
  } else if (isBlob(body) || isOneShot(body)) {
    const pieces = piecesOf(isBlob(body) ? body.stream() : body);
    for (let next = await pieces.next(); !next.done; next = await pieces.next()) digest.add(chunk(next.value));
  } else digest.add(encoded((body as URLSearchParams).toString()));
}

// By their form: a program may have classes of these names from packages, beside the runtime's own.
const kind = (body: unknown) => Object.prototype.toString.call(body).slice(8, -1);
const isBlob = (body: unknown): body is Blob => kind(body) === "Blob" || kind(body) === "File";
const isForm = (body: unknown): body is FormData => kind(body) === "FormData";
const isParams = (body: unknown): body is URLSearchParams => kind(body) === "URLSearchParams";

function entriesOf(form: FormData): [string, FormDataEntryValue][] {
  const all: [string, FormDataEntryValue][] = [];
  form.forEach((value, name) => {
    all.push([name, value]);
  });
  return all;
}

function copied(form: FormData): FormData {
  const copy = new (form.constructor as new () => FormData)();
  for (const [name, value] of entriesOf(form)) copy.append(name, value);
  return copy;
}

interface OldStream {
  pipe: unknown;
  path?: unknown;
  bytesRead?: unknown;
  start?: unknown;
  end?: unknown;
}

/** Reports whether a body is a stream of Node's own kind. */
function isOldStream(body: unknown): body is OldStream {
  return typeof body === "object" && body !== null && "pipe" in body && typeof body.pipe === "function";
}

/** Makes a function that opens the file of an `fs.createReadStream` again; undefined for other streams, and for a file that was begun. */
function fileOf(stream: OldStream): (() => Body) | undefined {
  const { path, start, end, bytesRead, constructor } = stream;
  if (typeof path !== "string" || bytesRead !== 0 || constructor.name !== "ReadStream") return undefined;
  return () => new (constructor as new (path: string, o: object) => unknown)(path, { start, end }) as Body;
}

/** A form of the package form-data. */
interface FormStream extends OldStream {
  getBoundary(): string;
  getLength(done: (error: unknown, length?: number) => void): void;
  on(event: string, listener: (value?: unknown) => void): void;
  resume(): void;
}

function isFormStream(body: OldStream): body is FormStream {
  return "getBoundary" in body && "getLength" in body;
}

/** Reads a form that tells its length. It has no other way to be read than by events. */
async function readForm(form: FormStream, limit: number, signal: AbortSignal | undefined): Promise<Kept> {
  const length = await new Promise<number>((resolve) => {
    form.getLength((error, known = Infinity) => {
      resolve(error ? Infinity : known);
    });
  });
  if (length > limit) return { body: form as unknown as Body, again: undefined };
  const content = new Gathering();
  const read = new Promise<unknown>((resolve, reject) => {
    form.on("data", (piece) => {
      content.add(chunk(piece));
    });
    form.on("end", resolve);
    form.on("error", reject);
  });
  form.resume();
  await (signal ? orAborted(read, signal) : read);
  return { ...kept(content.all()), type: `multipart/form-data; boundary=${form.getBoundary()}` };
}

/** Makes a stream of what got and undici send piece by piece: a generator gives its pieces away once. */
export function streamed(body: unknown): unknown {
  const iterable = typeof body === "object" && body !== null && Symbol.iterator in body;
  return iterable && !ArrayBuffer.isView(body) && !isForm(body) ? piecesIn(body as Iterable<unknown>) : body;
}

// eslint-disable-next-line @typescript-eslint/require-await -- what a stream is read by
async function* piecesIn(pieces: Iterable<unknown>): AsyncGenerator {
  yield* pieces;
}

/** Reports whether a body gives its content away once. */
export function isOneShot(body: unknown): body is AsyncIterable<unknown> | ReadableStream {
  if (typeof body !== "object" || body === null || isBlob(body)) return false;
  if (body instanceof ReadableStream) return true;
  return Symbol.asyncIterator in body && typeof body[Symbol.asyncIterator] === "function";
}

/** Reads the pieces of a stream of either kind. It can be ended while a read is waiting. */
export function piecesOf(stream: AsyncIterable<unknown> | ReadableStream): AsyncIterator<unknown, unknown> {
  if (!("getReader" in stream)) return stream[Symbol.asyncIterator]();
  const reader = stream.getReader();
  return {
    next: () => reader.read(),
    return: async () => {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
}

async function read(body: AsyncIterable<unknown> | ReadableStream, limit: number, signal: AbortSignal | undefined): Promise<Kept> {
  const source = piecesOf(body);
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
  return { body: likewise(body, stream), again: undefined };
}

/** Makes a stream of the kind that was given: node-fetch and axios take no other. */
function likewise(given: object, stream: ReadableStream): Body {
  const { from } = given.constructor as { from?: (source: unknown) => unknown };
  return (isOldStream(given) && typeof from === "function" ? from.call(given.constructor, stream) : stream) as Body;
}

function chunk(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (typeof value === "string") return encoded(value);
  throw new TypeError("a stream of a request body must be of bytes");
}
