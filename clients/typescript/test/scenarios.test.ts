// The scenarios that both languages run, against purser-sandbox and the official sellers.
import { after, before, describe, it } from "node:test";
import { payWithAxios } from "purserpay/axios";
import { createClient, type PaymentOptions } from "purserpay";
import axios from "axios";
import { Readable } from "node:stream";
import { type Buyer, inTurn, runScenario, scenarios } from "./scenario.js";
import { startWorld, type World } from "./world.js";

const buyers: Record<string, (o: PaymentOptions) => Buyer> = {
  fetch: (options) => {
    const client = createClient(options);
    return inTurn(async (url, { method, headers, body, stream }) => {
      const init: RequestInit & { duplex?: "half" } = { headers };
      if (body !== undefined) init.body = stream ? new Blob([body]).stream() : body;
      if (stream) init.duplex = "half";
      const answer = await client.request(method, url, init);
      return { status: answer.status, text: await answer.text() };
    });
  },
  axios: (options) => {
    const instance = axios.create({ proxy: false, responseType: "text", validateStatus: () => true });
    payWithAxios(instance, options);
    return inTurn(async (url, { method, headers, body, stream }) => {
      const data = stream && body !== undefined ? Readable.from([Buffer.from(body)]) : body;
      const config = { url, method, headers: Object.fromEntries(headers), data };
      const answer = await instance.request<string>(config);
      return { status: answer.status, text: answer.data };
    });
  },
};

describe("scenarios", { concurrency: true }, () => {
  for (const [by, make] of Object.entries(buyers)) {
    describe(`with ${by}`, { concurrency: 1 }, () => {
      let world: World;
      before(async () => {
        world = await startWorld();
      });
      after(() => {
        world.close();
      });
      for (const s of scenarios) {
        it(s.name, { timeout: 120_000 }, async () => {
          await runScenario(world, s, make);
        });
      }
    });
  }
});
