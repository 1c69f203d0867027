// That the types of got, undici, node-fetch and OpenTelemetry fit.
import { fromEnv, usdc, wrapFetch } from "purserpay";
import { wrap as wrapGot } from "purserpay/got";
import { wrap as wrapUndici } from "purserpay/undici";
import { trace } from "@opentelemetry/api";
import got, { type Got } from "got";
import { request } from "undici";

const options = fromEnv({ tracer: trace.getTracer("x"), logger: console, onPayment: ({ amount }) => amount && usdc(amount) });
const paying: Got = wrapGot(got, options);
void paying.get("https://x.example").json<{ a: 1 }>();
const buy: typeof request = wrapUndici(request, options);
void buy("https://x.example", { method: "POST" }).then(({ body }) => body.json());
void buy("https://x.example", { purser: { maxAmount: "0.02 USDC" } } as object);
void paying.get("https://x.example", { context: { purser: { maxAmount: "0.02 USDC" } } });
void wrapFetch(fetch, options).close(100);
// @ts-expect-error not a client
wrapUndici({}, options);
