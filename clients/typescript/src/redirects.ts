// Redirects, and which requests they change so much that they cannot be paid for (BEHAVIOUR.md §2, §4).

/** The headers that a request leaves out when it goes to another origin than it asked for. */
export const credentials: readonly string[] = ["authorization", "cookie", "proxy-authorization"];

/** Reports whether a status leads elsewhere. */
export const isRedirect = (status: number): boolean => [301, 302, 303, 307, 308].includes(status);

/** Reports whether a redirect is followed by a GET without body, as browsers do. */
export function becomesGet(status: number, method: string): boolean {
  return status === 303 ? method !== "HEAD" : (status === 301 || status === 302) && method === "POST";
}

/** Returns why a request cannot be sent a second time, or undefined. */
export function blocked(kept: { readonly again: unknown } | undefined, moved: boolean, method: string): string | undefined {
  if (kept && !kept.again) return "The request's body is a stream beyond bodyLimit and cannot be sent again, so it was not paid for.";
  if (moved && method !== "GET" && method !== "HEAD") {
    return "The request was redirected and is no GET, so it cannot be told what to send again; it was not paid for.";
  }
  return undefined;
}
