// The scenarios that both languages run, against purser-sandbox and the official sellers, with each HTTP client that
// README.md names.
import { after, before, describe, it } from "node:test";
import { Readable } from "node:stream";
import { createClient, type Fetch, type PaymentOptions, purserErrorOf, wrapFetch } from "purserpay";
import { payWithAxios } from "purserpay/axios";
import { wrap as wrapGot } from "purserpay/got";
import { wrap as wrapUndici } from "purserpay/undici";
import axios from "axios";
import got from "got";
import ky from "ky";
import nodeFetch from "node-fetch";
import * as undici from "undici";
import { type Buyer, inTurn, type Outcome, runScenario, type Scenario, scenarios } from "./scenario.js";
import { startWorld, type World } from "./world.js";

type Request = Scenario["request"];

const webStream = (text: string): unknown => new Blob([text]).stream();
const nodeStream = (text: string): unknown => Readable.from([Buffer.from(text)]);
const bodyOf = ({ body, stream }: Request, make: (text: string) => unknown) => (stream && body !== undefined ? make(body) : body);

/** Buys with a fetch, which takes streams of its own kind. */
function byFetch(send: Fetch, make = webStream): Buyer {
  return inTurn(async (url, request) => {
    const { method, headers } = request;
    const body = bodyOf(request, make) as BodyInit;
    const answer = await send(url, { method, headers, ...(body && { body, duplex: "half" }) });
    return { status: answer.status, text: await answer.text() };
  });
}

const buyers: Record<string, (o: PaymentOptions) => Buyer> = {
  fetch: (options) => {
    const client = createClient(options);
    return byFetch((url, init) => client.request(init?.method ?? "GET", url as string, init));
  },
  "fetch of undici": (options) => byFetch(wrapFetch(undici.fetch as unknown as Fetch, options)),
  "node-fetch": (options) => byFetch(wrapFetch(nodeFetch as unknown as Fetch, options), nodeStream),
  ky: (options) => {
    // A call is one logical request here, so ky's own repeats are off.
    const paying = ky.extend({ fetch: wrapFetch(fetch, options), throwHttpErrors: false, retry: 0, timeout: false });
    return byFetch((url, init) => paying(url as string, init));
  },
  axios: (options) => {
    const instance = axios.create({ proxy: false, responseType: "text", validateStatus: () => true });
    payWithAxios(instance, options);
    return inTurn(async (url, request) => {
      const { method, headers } = request;
      const config = { url, method, headers: Object.fromEntries(headers), data: bodyOf(request, nodeStream) };
      const answer = await instance.request<string>(config);
      return { status: answer.status, text: answer.data };
    });
  },
  got: (options) => {
    const paying = wrapGot(got.extend({ retry: { limit: 0 }, throwHttpErrors: false }), options);
    return inTurn(async (url, request): Promise<Outcome> => {
      const { method, headers } = request;
      const body = bodyOf(request, nodeStream);
      const how = { method, headers: Object.fromEntries(headers), ...(body === undefined ? {} : { body }) };
      try {
        const answer = await paying(url, how as object);
        return { status: answer.statusCode, text: answer.body };
      } catch (error) {
        throw purserErrorOf(error) ?? error;
      }
    });
  },
  "undici.request": (options) => {
    // It follows redirects by an interceptor only.
    const dispatcher = new undici.Agent().compose(undici.interceptors.redirect({ maxRedirections: 5 }));
    const paying = wrapUndici(undici.request, options);
    return inTurn(async (url, request) => {
      const { method, headers } = request;
      const body = bodyOf(request, nodeStream) as string;
      const answer = await paying(url, { method: method as "GET", headers: headers.flat(), body, dispatcher });
      return { status: answer.statusCode, text: await answer.body.text() };
    });
  },
};

describe("scenarios", { concurrency: true }, () => {
  let world: World;
  before(async () => {
    world = await startWorld();
  });
  after(() => {
    world.close();
  });
  for (const [by, make] of Object.entries(buyers)) {
    describe(`with ${by}`, { concurrency: 1 }, () => {
      let own: World;
      before(async () => {
        own = await world.purse();
      });
      for (const s of scenarios) {
        it(s.name, { timeout: 120_000 }, async () => {
          await runScenario(own, s, make);
        });
      }
    });
  }
});
