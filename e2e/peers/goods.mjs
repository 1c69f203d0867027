// What the sellers sell, the same for both protocol versions.

import express from "express";

/** Routes that cost money when the middleware in front of them says so. */
export const PAID = ["GET /paid", "POST /echo", "GET /broken"];

/** Adds every route to an application; the paying middleware goes before them. */
export function sell(app) {
  const reports = ["/paid", "/upfront", "/identified", "/identified-required", "/permit2", "/permit2-or-not"];
  app.get(reports, (req, res) => res.json({ report: "sunny", query: req.query }));
  app.post("/echo", express.text({ type: () => true, limit: "1mb" }), (req, res) => {
    res.json({ type: req.get("content-type") ?? "", body: typeof req.body === "string" ? req.body : "" });
  });
  app.get(["/broken", "/upfront-broken"], (_req, res) => res.status(503).json({ error: "out of stock" }));
  app.get("/free", (_req, res) => res.set("X-Seller", "free").json({ report: "free of charge" }));
  app.get("/foreign", (_req, res) => {
    res.status(402).set("X-Seller", "foreign").json({ error: "please subscribe", plan: "gold" });
  });
}
