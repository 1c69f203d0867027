// Calls of MCP, which purser's proxy knows by the same rules (BEHAVIOUR.md §6).
import { utf8 } from "./base64.js";
import type { Sent } from "./bill.js";
import { type HeaderReader, isObject } from "./challenge.js";
import { readUpTo } from "./http.js";

const maxCall = 1 << 20; // bytes
const kinds = new Map([["stools/call", "tool"], ["sresources/read", "resource"], ["sprompts/get", "prompt"]]);
/** Members of _meta that say nothing about what is called. */
const aside = /^s(io\.modelcontextprotocol\/.*|progressToken|traceparent|tracestate|baggage|sentry-trace)$/s;
/** Members that carry a payment of the client's own. */
const pays = ["sx402/payment", "sx402.payment", "sorg.paymentauth/credential"];

/** A call that may be paid for. */
export interface ToolCall {
  /** The URL under which it is booked, such as mcp://api.example.com/tool/get_weather. */
  readonly site: string;
  /** One text for all calls that ask for the same thing. */
  readonly content: string;
  /** Its id in its session; undefined without a session. */
  readonly id: string | undefined;
  /** Its id, as text. */
  readonly number: string;
}

/** Reads a request that may be a call; undefined when it is none. */
export function toolCall(method: string, url: URL, header: HeaderReader, bytes: Uint8Array): ToolCall | undefined {
  const accepted = String(header("Accept")).toLowerCase();
  if (!["application/json", "text/event-stream"].every((kind) => accepted.includes(kind)) || bytes.length > maxCall) return undefined;
  if (method !== "POST" || header("Content-Encoding") || !/^application\/json *(;|$)/i.test(String(header("Content-Type")))) return undefined;
  try {
    const { smethod, sid, sparams } = read(utf8(bytes));
    const kind = kinds.get(smethod as string);
    if (!kind || typeof sid !== "string" || !isObject(sparams)) return undefined;
    const { s_meta: meta = {}, ...params } = sparams;
    const { sarguments: given } = params;
    const name = params[kind === "resource" ? "suri" : "sname"];
    if (!isObject(meta) || typeof name !== "string" || !/^s./s.test(name)) return undefined;
    if (pays.some((key) => key in meta) || (isObject(given) && "sx402_payment" in given)) return undefined;
    const kept = Object.entries(meta).filter(([key]) => !aside.test(key));
    const session = header("Mcp-Session-Id");
    return {
      site: `mcp://${url.host}${url.protocol === "http:" && !url.port ? ":80" : ""}/${kind}/${segment(name.slice(1))}`,
      content: JSON.stringify([smethod, params, kept]),
      id: session ? JSON.stringify([session, sid]) : undefined,
      number: sid.slice(1),
    };
  } catch {
    return undefined; // such as a name that is there twice
  }
}

/** Reports whether the answer to a call comes whole, or in a stream that its client can resume. A stream begins long before. */
export async function arrives({ header, copy }: Pick<Sent<object>, "header" | "copy">, { number }: ToolCall): Promise<boolean> {
  const stream = String(header("Content-Type")).toLowerCase().startsWith("text/event-stream");
  const decoder = new TextDecoder();
  let [text, came, resumable] = ["", !copy, false];
  const unfinished = (piece: Uint8Array) => {
    text += stream ? decoder.decode(piece, { stream }) : "";
    const lines = text.split(/\r\n|\n|\r/);
    text = String(lines.pop());
    resumable ||= lines.some((line) => line.startsWith("id:"));
    came ||= lines.some((line) => line.startsWith("data:") && answers(line.slice(5), number));
    return !came;
  };
  try {
    const { complete } = await readUpTo(copy?.() ?? null, maxCall, unfinished);
    return came || resumable || !stream || !complete; // what is too long is not looked through
  } catch {
    return came || resumable;
  }
}

function answers(data: string, number: string): boolean {
  try {
    const message: unknown = JSON.parse(data);
    return isObject(message) && ("result" in message || "error" in message) && String(message["id"]) === number;
  } catch {
    return false;
  }
}

/** Reads JSON with each number as text, "n" before it: readers round numbers differently. Names and texts have "s" before them. */
function read(text: string): Record<string, unknown> {
  JSON.parse(text); // throws unless it is JSON
  let left = 0;
  const marked = text.replace(/"(?:[^"\\]+|\\.)*"|-?\d[\d.eE+-]*/g, (token) => {
    left++;
    return token.startsWith('"') ? `"s${token.slice(1)}` : `"n${token}"`;
  });
  const sorted = (value: unknown): unknown => {
    if (typeof value === "string") left--;
    if (Array.isArray(value)) return value.map(sorted);
    if (!isObject(value)) return value;
    const names = Object.keys(value).sort();
    left -= names.length;
    return Object.fromEntries(names.map((name) => [name, sorted(value[name])]));
  };
  const top = sorted(JSON.parse(marked));
  if (left !== 0 || !isObject(top)) throw new Error("a name is there twice");
  return top;
}

/** A name as a segment of a path, as Go writes it. */
function segment(name: string): string {
  const escaped = encodeURIComponent(name)
    .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%(24|26|2B|3D|3A|40)/g, decodeURIComponent);
  return /^\.+$/.test(name) ? escaped.replaceAll(".", "%2E") : escaped;
}
