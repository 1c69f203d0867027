// An API sold with the official middleware of the first generation, x402-express 1.2.0. Environment: FACILITATOR_URL,
// PAY_TO; PRICE (in dollars), MAX_TIMEOUT (seconds that a payment stays valid).

import express from "express";
import { paymentMiddleware } from "x402-express";
import { PAID, sell } from "./goods.mjs";
import { env, serve } from "./process.mjs";

const route = {
  price: env("PRICE", "$0.01"),
  network: "base",
  config: { description: "a report", maxTimeoutSeconds: Number(env("MAX_TIMEOUT", "60")) },
};

const app = express();
const routes = Object.fromEntries(PAID.map((name) => [name, route]));
app.use(paymentMiddleware(env("PAY_TO"), routes, { url: env("FACILITATOR_URL") }));
sell(app);
await serve(app);
