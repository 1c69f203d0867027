// What a request says of itself (BEHAVIOUR.md §2, §4, §6).
import type { HeaderReader } from "./challenge.js";

/** Names a request for whose content no program asked, such as those that browsers make by themselves; "" for all others. */
export function unasked(method: string, { pathname }: URL, header: HeaderReader): string {
  const meant = header("Sec-Fetch-Dest");
  const ahead = ["Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"].map(header).join();
  if (method === "HEAD") return "a HEAD";
  if (method === "OPTIONS" && header("Origin") && header("Access-Control-Request-Method")) return "a CORS preflight";
  if (/\b(prefetch|prerender|preview)\b/i.test(ahead)) return "a prefetch";
  if (meant === "image" && /^\/(favicon\.ico|apple-touch-icon.*\.png)$/.test(pathname)) return "an icon";
  return meant === "report" ? "a report" : "";
}

// Where libraries count the tries of a request: from 0, or from 1.
const repeats = ["X-Stainless-Retry-Count", "Retry-Attempt", "X-Retry-Count", "Retry-Count"];
const tries = ["Amz-Sdk-Request", "X-Goog-Api-Client", "X-Envoy-Attempt-Count"];
const count = /(?:^|[ ;,])(?:attempt=|gccl-attempt-count\/)?(\d+)(?![^ ;,])/;

/** Reports whether a request says that it is no first try. */
export function saysRepeat(header: HeaderReader): boolean {
  const above = (least: number) => (name: string) => Number(count.exec(header(name) ?? "")?.[1]) > least;
  return repeats.some(above(0)) || tries.some(above(1));
}

/** Returns how long the program waits for an answer, in milliseconds, as its SDK tells the seller; 0 if it does not. */
export function announced(header: HeaderReader): number {
  const wait = /\bwait *= *"?([\d.]+)/i.exec(header("Prefer") ?? "")?.[1];
  return Math.max(...[header("X-Stainless-Timeout"), header("X-Stainless-Read-Timeout"), wait].map((seconds) => 1000 * Number(seconds) || 0));
}
