// An API sold with the official middleware @x402/express. Environment: FACILITATOR_URL, PAY_TO; PRICE (in dollars),
// MAX_TIMEOUT (seconds that a payment stays valid).

import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import express from "express";
import { PAID, sell } from "./goods.mjs";
import { env, serve } from "./process.mjs";

const accepts = {
  scheme: "exact",
  network: "eip155:8453",
  price: env("PRICE", "$0.01"),
  payTo: env("PAY_TO"),
  maxTimeoutSeconds: Number(env("MAX_TIMEOUT", "60")),
};
const upfront = { ...accepts, extra: { paymentFlow: "upfront" } };

const routes = Object.fromEntries(PAID.map((route) => [route, { accepts, description: "a report" }]));
routes["GET /upfront"] = { accepts: upfront, description: "a report, paid before it is made" };
routes["GET /upfront-broken"] = { accepts: upfront, description: "a report that fails after it was paid" };

const facilitator = new HTTPFacilitatorClient({ url: env("FACILITATOR_URL") });
const resourceServer = new x402ResourceServer(facilitator).register("eip155:8453", new ExactEvmScheme());

const app = express();
app.use(paymentMiddleware(routes, resourceServer));
sell(app);
await serve(app);
