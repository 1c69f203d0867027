// An API sold with the official middleware @x402/express and the extensions of @x402/extensions that protect buyers.
// Environment: FACILITATOR_URL, PRIVATE_KEY (of the account that is paid, which signs offers, too).

import { createSign, generateKeyPairSync } from "node:crypto";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import {
  createEIP712OfferReceiptIssuer,
  createJWSOfferReceiptIssuer,
  createOfferReceiptExtension,
  declareOfferReceiptExtension,
} from "@x402/extensions/offer-receipt";
import {
  createSIWxResourceServerExtension,
  declareSIWxExtension,
  InMemorySIWxStorage,
} from "@x402/extensions/sign-in-with-x";
import express from "express";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { env, serve } from "./process.mjs";

const network = "eip155:8453";
const account = privateKeyToAccount(env("PRIVATE_KEY"));
const accepts = { scheme: "exact", network, price: "$0.01", payTo: account.address, maxTimeoutSeconds: 60 };
const facilitator = new HTTPFacilitatorClient({ url: env("FACILITATOR_URL") });

/** The paying middleware for routes whose sellers have an extension. */
function selling(routes, extension) {
  const server = new x402ResourceServer(facilitator).register(network, new ExactEvmScheme());
  return paymentMiddleware(routes, server.registerExtension(extension));
}

/** A route with signed offers and receipts. */
function signed(path, issuer, config) {
  const extensions = declareOfferReceiptExtension(config);
  return selling({ [`GET ${path}`]: { accepts, extensions } }, createOfferReceiptExtension(issuer));
}

const typed = (by) => createEIP712OfferReceiptIssuer(`did:pkh:eip155:1:${by.address}`, (data) => by.signTypedData(data));
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const kid = "did:web:api.example.com#key-1";
const jws = createJWSOfferReceiptIssuer(kid, {
  kid,
  format: "jws",
  algorithm: "ES256",
  sign: async (bytes) => createSign("sha256").update(bytes).sign({ key: privateKey, dsaEncoding: "ieee-p1363" }, "base64url"),
});

/** Keeps who has paid, and which nonces were used. */
class Storage extends InMemorySIWxStorage {
  used = new Set();
  hasUsedNonce = (nonce) => this.used.has(nonce);
  recordNonce = (nonce) => this.used.add(nonce);
}

class Forgetful extends Storage {
  hasPaid = () => false;
}

/** Routes that are open to who has paid. The public origin is that of the first request. */
function memberships(origin) {
  const declared = declareSIWxExtension({ statement: "Read what you have bought.", expirationSeconds: 120 });
  const only = declareSIWxExtension({ network });
  const routes = {
    "GET /member": { accepts, extensions: declared },
    "GET /other": { accepts, extensions: declared },
    "POST /member": { accepts, extensions: declared },
    "GET /member-only": { accepts: [], extensions: only },
  };
  const forgetful = { "GET /forgetful": { accepts, extensions: declared } };
  return [
    selling(routes, createSIWxResourceServerExtension({ storage: new Storage(), origin })),
    selling(forgetful, createSIWxResourceServerExtension({ storage: new Forgetful(), origin })),
  ];
}

const app = express();
const proofs = [];
app.get("/proofs", (_req, res) => res.json(proofs));
app.use((req, _res, next) => {
  const proof = req.get("SIGN-IN-WITH-X");
  if (proof) proofs.push({ path: req.path, ...JSON.parse(Buffer.from(proof, "base64").toString()) });
  next();
});
app.use(signed("/signed", typed(account)));
app.use(signed("/forged", typed(privateKeyToAccount(generatePrivateKey()))));
app.use(signed("/expired", typed(account), { offerValiditySeconds: -60 }));
app.use(signed("/jws", jws));
let members;
for (const at of [0, 1]) {
  app.use((req, res, next) => {
    members ??= memberships(`${req.protocol}://${req.get("host")}`);
    return members[at](req, res, next);
  });
}
app.use(express.text({ type: () => true }));
app.use((req, res) => res.json({ report: "sunny", body: typeof req.body === "string" ? req.body : "" }));
await serve(app);
