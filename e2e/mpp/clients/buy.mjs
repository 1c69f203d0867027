// Makes requests at once, and prints what each got: lines of JSON, in order. PURCHASES are URLs, or lists of a URL and a
// body. With OFFICIAL the official client makes them, else fetch as it comes.

import { client } from "./mppx.mjs";

const ask = process.env.OFFICIAL ? client().fetch : fetch;

const results = await Promise.all(
  JSON.parse(process.env.PURCHASES).map(async ([url, body]) => {
    try {
      const answer = await ask(url, body ? { method: "POST", body: Buffer.from(body, "base64"), redirect: "manual" } : { redirect: "manual" });
      const text = Buffer.from(await answer.arrayBuffer()).toString("latin1");
      return { status: answer.status, text, declined: answer.headers.get("purser-declined") ?? "" };
    } catch (error) {
      return { status: 0, text: "", declined: "", failure: String(error.cause ?? error) };
    }
  }),
);
for (const result of results) console.log(JSON.stringify(result));
process.exit();
