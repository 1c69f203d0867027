// What a seller adds to the extension payment-identifier, of which @x402/extensions has the form only: the answers that it
// keeps. See "Recovering a Lost Response" in specs/extensions/payment_identifier.md of x402.

import { decodePaymentSignatureHeader } from "@x402/core/http";
import {
  extractAndValidatePaymentIdentifier,
  validatePaymentIdentifierRequirement,
} from "@x402/extensions/payment-identifier";

/**
 * Middleware for the place before the paying one. It keeps each paid answer under the payload's id, and answers the same
 * payload with it. X-Payment-Id names the id, X-Stored says that the answer was kept.
 */
export function answerAgain(required) {
  const kept = new Map();
  return (req, res, next) => {
    const header = req.get("PAYMENT-SIGNATURE");
    if (!header) return next();
    const payload = decodePaymentSignatureHeader(header);
    const { id, validation } = extractAndValidatePaymentIdentifier(payload);
    for (const { valid, errors } of [validation, validatePaymentIdentifierRequirement(payload, required)]) {
      if (!valid) return res.status(400).json({ errors });
    }
    if (!id) return next();
    res.set("X-Payment-Id", id);
    const answer = kept.get(id);
    if (answer) {
      if (answer.header !== header) return res.status(409).json({ error: "another payload has this id" });
      return res.status(answer.status).set(answer.headers).set("X-Stored", "true").end(answer.body);
    }
    const chunks = [];
    for (const name of ["write", "end"]) {
      const original = res[name].bind(res);
      res[name] = (...args) => {
        if (args[0] && typeof args[0] !== "function") chunks.push(Buffer.from(args[0]));
        if (name === "end" && res.statusCode < 400) {
          kept.set(id, { header, status: res.statusCode, headers: res.getHeaders(), body: Buffer.concat(chunks) });
        }
        return original(...args);
      };
    }
    next();
  };
}
