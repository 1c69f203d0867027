// The facilitator of the first generation, package x402 1.2.0. Unlike its successor it does not look at used nonces in
// /verify. Environment: RPC_URL, PRIVATE_KEY (an account with ether).

import express from "express";
import { settle, verify } from "x402/facilitator";
import { relayer } from "./chain.mjs";
import { serve } from "./process.mjs";

const client = relayer();

const app = express();
app.use(express.json({ limit: "1mb" }));
app.get("/supported", (_req, res) => res.json({ kinds: [{ x402Version: 1, scheme: "exact", network: "base" }] }));
app.post("/verify", async (req, res) => {
  res.json(await verify(client, req.body.paymentPayload, req.body.paymentRequirements));
});
app.post("/settle", async (req, res) => {
  res.json(await settle(client, req.body.paymentPayload, req.body.paymentRequirements));
});
await serve(app);
