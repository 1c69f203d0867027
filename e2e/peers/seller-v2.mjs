// An API sold with the official middleware @x402/express. Environment: FACILITATOR_URL, PAY_TO; PRICE (in dollars),
// MAX_TIMEOUT (seconds that a payment stays valid), CHAIN_ID; UPTO, if the facilitator knows that scheme.

import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { UptoEvmScheme } from "@x402/evm/upto/server";
import { paymentMiddleware, setSettlementOverrides, x402ResourceServer } from "@x402/express";
import { PAYMENT_IDENTIFIER, declarePaymentIdentifierExtension } from "@x402/extensions/payment-identifier";
import express from "express";
import { answerAgain } from "./answers.mjs";
import { PAID, sell } from "./goods.mjs";
import { env, serve } from "./process.mjs";

const network = `eip155:${env("CHAIN_ID", "8453")}`;
const accepts = {
  scheme: "exact",
  network,
  price: env("PRICE", "$0.01"),
  payTo: env("PAY_TO"),
  maxTimeoutSeconds: Number(env("MAX_TIMEOUT", "60")),
};
const upfront = { ...accepts, extra: { paymentFlow: "upfront" } };

// Through Permit2, with an amount that is fixed, and with one that the handler chooses: the query's `charge`.
const asset = env("TOKEN", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
const permit2 = { ...accepts, price: { asset, amount: "10000", extra: { assetTransferMethod: "permit2" } } };
const upto = { ...permit2, scheme: "upto" };

const routes = Object.fromEntries(PAID.map((route) => [route, { accepts, description: "a report" }]));
routes["GET /upfront"] = { accepts: upfront, description: "a report, paid before it is made" };
routes["GET /upfront-broken"] = { accepts: upfront, description: "a report that fails after it was paid" };
routes["POST /v1/*"] = { accepts, description: "a model, as the SDKs of model providers ask" };
routes["GET /permit2"] = { accepts: permit2, description: "a report, paid through Permit2" };
routes["GET /permit2-or-not"] = { accepts: [permit2, accepts], description: "a report, paid in one of two ways" };
if (env("UPTO", "") !== "") { // else the middleware refuses to start
  routes["GET /upto"] = { accepts: upto, description: "a report whose price is known when it is made" };
}

for (const [path, required] of Object.entries({ "/identified": false, "/identified-required": true })) {
  const extensions = { [PAYMENT_IDENTIFIER]: declarePaymentIdentifierExtension(required) };
  routes[`GET ${path}`] = { accepts, description: "a report whose answer is kept", extensions };
}

const facilitator = new HTTPFacilitatorClient({ url: env("FACILITATOR_URL") });
const resourceServer = new x402ResourceServer(facilitator)
  .register(network, new ExactEvmScheme())
  .register(network, new UptoEvmScheme());

const app = express();
app.get("/identified", answerAgain(false));
app.get("/identified-required", answerAgain(true));
app.use(paymentMiddleware(routes, resourceServer));
app.get("/upto", (req, res) => {
  setSettlementOverrides(res, { amount: String(req.query.charge) });
  res.json({ report: "sunny", query: req.query });
});
sell(app);
await serve(app);
