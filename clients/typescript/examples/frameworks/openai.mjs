// openai: a model that is paid by the request.
import OpenAI from "openai";
import { fromEnv, wrapFetch } from "purserpay";

const paying = wrapFetch(fetch, fromEnv({ return402: true }));
const openai = new OpenAI({ baseURL: process.env.MODEL_URL, apiKey: "none", fetch: paying });
const messages = [{ role: "user", content: "How is the weather?" }];
const answer = await openai.chat.completions.create({ model: "any", messages });
console.log(answer.choices[0].message.content);
