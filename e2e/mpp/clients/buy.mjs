// Makes requests at once, and prints what each got: lines of JSON, in order. PURCHASES are lists of a URL and a body in
// base64. With OFFICIAL the official client makes them, else fetch as it comes, which makes a request again that a server
// could not serve, up to four times.

import { client } from "./mppx.mjs";

const ask = process.env.OFFICIAL ? client().fetch : fetch;

const results = await Promise.all(
  JSON.parse(process.env.PURCHASES).map(async ([url, body]) => {
    try {
      const init = body ? { method: "POST", body: Buffer.from(body, "base64") } : {};
      let answer = await ask(url, init);
      for (let again = 0; again < 4 && answer.status >= 500 && !process.env.OFFICIAL; again++) {
        await new Promise((done) => setTimeout(done, 500));
        answer = await ask(url, init);
      }
      const text = Buffer.from(await answer.arrayBuffer()).toString("latin1");
      return { status: answer.status, text, declined: answer.headers.get("purser-declined") ?? "" };
    } catch (error) {
      return { status: 0, text: "", declined: "", failure: String(error.cause ?? error) };
    }
  }),
);
for (const result of results) console.log(JSON.stringify(result));
process.exit();
