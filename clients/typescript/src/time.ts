// Waiting: for a while, for an end, for whichever is first.

/** Resolves after ms milliseconds, or rejects with the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const aborted = () => {
      clearTimeout(timer);
      reject(reasonOf(signal));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

/** Resolves when the work has ended, in whatever way, or after ms milliseconds. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work.then(nothing, nothing), limit]);
  clearTimeout(timer);
}

const nothing = () => undefined;

/** Rejects when the signal fires, even if the work does not heed it. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const aborted = () => {
      reject(reasonOf(signal));
    };
    if (signal.aborted) aborted();
    signal.addEventListener("abort", aborted, { once: true });
    work.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", aborted);
    });
  });
}

/** A deadline that can be taken back. Its signal also fires with another one, even after it was taken back. */
export function deadline(ms: number, what: string, outer?: AbortSignal): { signal: AbortSignal; clear: () => void } {
  const controller = new AbortController();
  const timer = setTimeout(() => {
    controller.abort(new DOMException(`${what} took longer than ${ms} ms`, "TimeoutError"));
  }, ms);
  const clear = () => {
    clearTimeout(timer);
  };
  return { signal: outer ? either(outer, controller) : controller.signal, clear };
}

/** A signal that fires with either. AbortSignal.any lets go of signals that are not needed; older runtimes lack it. */
export function either(outer: AbortSignal, own: AbortController): AbortSignal {
  if (typeof AbortSignal.any === "function") return AbortSignal.any([outer, own.signal]);
  const follow = () => {
    own.abort(reasonOf(outer));
  };
  if (outer.aborted) follow();
  else outer.addEventListener("abort", follow, { once: true });
  return own.signal;
}

/** Returns why a signal fired, as an Error where the program gave one or none. */
export function reasonOf(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  // A program may abort with anything; it gets that very thing back.
  return (reason ?? new DOMException("This operation was aborted", "AbortError")) as Error;
}

/** Returns the seconds of a Retry-After header in milliseconds, or undefined. */
export function retryAfter(value: string | null): number | undefined {
  return value !== null && /^\s*[0-9]{1,9}\s*$/.test(value) ? Number(value) * 1000 : undefined;
}

/** A Retry-After above this ends the tries. */
export const longestWait = 5000;
