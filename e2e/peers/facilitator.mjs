// The official facilitator, packages @x402/core and @x402/evm: protocol version 2, and 1 on Base.
// Environment: RPC_URL, PRIVATE_KEY (an account with ether), CHAIN_ID.

import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/facilitator";
import { UptoEvmScheme } from "@x402/evm/upto/facilitator";
import express from "express";
import { relayer } from "./chain.mjs";
import { env, serve } from "./process.mjs";

const client = relayer();
const signer = toFacilitatorEvmSigner({ ...client, address: client.account.address }, { confirmationTimeoutMs: 20_000 });
const facilitator = new x402Facilitator()
  .register(`eip155:${env("CHAIN_ID", "8453")}`, new ExactEvmScheme(signer))
  .register(`eip155:${env("CHAIN_ID", "8453")}`, new UptoEvmScheme(signer))
  .registerV1("base", new ExactEvmSchemeV1(signer));

const app = express();
app.use(express.json({ limit: "1mb" }));
app.get("/supported", (_req, res) => res.json(facilitator.getSupported()));
app.post("/verify", async (req, res) => {
  res.json(await facilitator.verify(req.body.paymentPayload, req.body.paymentRequirements));
});
app.post("/settle", async (req, res) => {
  res.json(await facilitator.settle(req.body.paymentPayload, req.body.paymentRequirements));
});
await serve(app);
