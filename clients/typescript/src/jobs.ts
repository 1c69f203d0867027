// Jobs that paid answers name: questions about them carry the payment of the order (BEHAVIOUR.md §6).
import type { Paid } from "./answers.js";
import { utf8 } from "./base64.js";
import { isObject } from "./challenge.js";
import { bareUrl } from "./options.js";
import type { Sent } from "./bill.js";
import type { PaymentSummary } from "./purchase.js";

const lifetime = 7 * 60_000; // longer than a payment is valid
const maxEntries = 256;
const maxNamed = 4; // by one body
const places = ["Location", "Content-Location", "Operation-Location", "Azure-AsyncOperation"];

/** The payment of an order. */
export interface Order {
  readonly key: string;
  readonly paid: Paid;
  readonly summary: PaymentSummary;
  readonly since: number;
}

/** The orders of one client by the URLs where they can be asked about. */
export class Jobs {
  readonly #orders = new Map<string, Order>();

  /** Finds the order that a request asks about. */
  at(...urls: URL[]): Order | undefined {
    const order = urls.map((url) => this.#orders.get(bareUrl(url))).find(Boolean);
    return order && performance.now() - order.since < lifetime ? order : undefined;
  }

  /** Notes where the answer to an order, or to a question about one, says that its job can be asked about. */
  async note({ status, header, page }: Sent<object>, from: URL, order: Order, gets: boolean): Promise<void> {
    if (status !== 202 && (gets || (status !== 200 && status !== 201))) return;
    const named = (where: unknown) => {
      const url = typeof where === "string" && where ? new URL(where, from) : from;
      if (url.origin !== from.origin || bareUrl(url) === bareUrl(from)) return;
      this.#orders.delete(bareUrl(url));
      this.#orders.set(bareUrl(url), order);
      for (const oldest of this.#orders.keys()) if (this.#orders.size > maxEntries) this.#orders.delete(oldest);
    };
    places.map(header).forEach(named);
    if (/json *(;|$)/.test(header("Content-Type") ?? "")) urlsIn(JSON.parse(utf8(await page()))).forEach(named);
  }
}

/** Returns where a JSON answer says that its job can be asked about. */
function urlsIn(top: unknown): unknown[] {
  if (!isObject(top)) return [];
  return [top, top["data"], top["job"], top["task"], top["urls"], top["links"]]
    .flatMap((of, i) =>
      Object.entries(isObject(of) ? of : {}).filter(
        ([name]) => /^(poll|polling|status|response|result|job|task)url$/i.test(name.replace(/_/g, "")) || (i > 3 && /^(get|status|self)$/.test(name)),
      ),
    )
    .map(([, url]) => url)
    .filter((url) => typeof url === "string")
    .slice(0, maxNamed);
}
