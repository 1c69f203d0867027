// What programs may and may not write, checked by the compiler in every way that packages are resolved.
import {
  type AnyPurserError,
  createClient,
  type ErrorCode,
  isPurserError,
  type PayingFetch,
  type Payment,
  paymentOf,
  purserErrorOf,
  type Quote,
  RejectedError,
  UnclearError,
  wrapFetch,
} from "purserpay";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Equal<A, B>): void => undefined;

const paying: PayingFetch = wrapFetch(fetch, { apiKey: "pk", baseUrl: new URL("http://127.0.0.1:8402"), maxAmount: 5n });
const dropIn: (input: string | URL | Request, init?: RequestInit) => Promise<Response> = paying;
void dropIn(new Request("https://x.example"));
void paying("https://x.example", { idempotencyKey: "k", method: "POST" });
wrapFetch(paying, {
  apiKey: "pk",
  baseUrl: "http://x",
  settlement: "payer",
  beforePayment: ({ amount, offers }) => BigInt(amount) < 5n && offers[0]?.payTo === "0x",
});
wrapFetch(fetch, { apiKey: "pk", baseUrl: "http://x", beforePayment: async () => Promise.resolve(true) });

// @ts-expect-error only true allows a payment: a callback that forgets to return does not compile
wrapFetch(fetch, { apiKey: "pk", baseUrl: "http://x", beforePayment: () => undefined });
// @ts-expect-error nor does one that returns a number
wrapFetch(fetch, { apiKey: "pk", baseUrl: "http://x", beforePayment: () => 1 });

// A setting that may be missing can be handed on as it is.
const maybe = Math.random() > 2 ? "0.05 USDC" : undefined;
wrapFetch(fetch, { apiKey: "pk", baseUrl: "http://x", maxAmount: maybe, task: maybe, beforePayment: undefined, budget: maybe });
void paying("https://x.example", { maxAmount: maybe, idempotencyKey: maybe });
void createClient({ apiKey: maybe, baseUrl: "http://x" }).pay({ paymentRequiredHeader: "", task: maybe, maxAmount: maybe });

// @ts-expect-error the key is missing
wrapFetch(fetch, { baseUrl: "http://x" });
// @ts-expect-error amounts are no numbers
wrapFetch(fetch, { apiKey: "pk", baseUrl: "http://x", maxAmount: 5 });
// @ts-expect-error no such settlement
wrapFetch(fetch, { apiKey: "pk", baseUrl: "http://x", settlement: "both" });
// @ts-expect-error no such option
wrapFetch(fetch, { apiKey: "pk", baseUrl: "http://x", maxAmmount: "5" });

export async function use(): Promise<void> {
  const purser = createClient({ baseUrl: "http://x" });
  const answer = await purser.post("https://x.example", { json: { a: 1 } });
  same<typeof answer, Response>(true);
  same<string | undefined, NonNullable<ReturnType<typeof paymentOf>>["id"]>(true);
  for await (const event of purser.spend.all({ task: "t" })) same<typeof event.amount, string>(true);
  for await (const payment of purser.payments.all({ state: "disputed" })) same<typeof payment, Payment>(true);
  // @ts-expect-error no such state
  await purser.payments.list({ state: "paid" });
  const { address } = await purser.wallets.create();
  same<typeof address, string | null>(true);
  try {
    await purser.get("https://x.example");
  } catch (error) {
    if (!isPurserError(error)) throw error;
    if (error.code === "limit-reached") console.log(error.paymentId?.length);
    // @ts-expect-error no such code
    if (error.code === "limit") return;
    if (error.code === "unclear") same<Awaited<ReturnType<typeof error.resume>>, Response>(true);
    if (error.code === "dry-run") same<typeof error.quote, Quote>(true);
    if (error.code === "declined") same<typeof error.left, string | undefined>(true);
    // @ts-expect-error only some can be resumed
    if (error.code === "declined") await error.resume();
    same<typeof error.code, ErrorCode>(true);
    same<AnyPurserError["retryable"], boolean>(true);
    if (error instanceof UnclearError || error instanceof RejectedError) {
      const again: unknown = await error.resume({ signal: AbortSignal.timeout(5) });
      console.log(again);
    }
  }
}

/** The README's example. */
export async function resumed(url: string): Promise<Response> {
  const purser = createClient({ apiKey: "pk", baseUrl: "http://x", return402: false });
  try {
    return await purser.get(url);
  } catch (error) {
    const failed = purserErrorOf(error);
    if (failed?.code === "unclear") return await failed.resume({ signal: AbortSignal.timeout(60_000) });
    throw error;
  }
}
