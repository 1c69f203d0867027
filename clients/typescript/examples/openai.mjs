// An OpenAI-compatible API that is paid for by the request: its client gets a fetch that pays. Its own retries are
// harmless, since the same request gets the same payment until it was answered.
import { wrapFetch } from "purserpay";
import OpenAI from "openai";

const paying = wrapFetch(fetch, {
  baseUrl: process.env.PURSER_URL ?? "http://127.0.0.1:8402",
  apiKey: process.env.PURSER_KEY,
  maxAmount: "50000",
});
const openai = new OpenAI({ baseURL: process.argv[2], apiKey: "not needed", fetch: paying });

const completion = await openai.chat.completions.create({
  model: "any",
  messages: [{ role: "user", content: "Say hello" }],
});
console.log(completion.choices[0].message.content);
