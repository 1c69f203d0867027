// anthropic: a model that is paid by the request.
import Anthropic from "@anthropic-ai/sdk";
import { fromEnv, wrapFetch } from "purserpay";

const paying = wrapFetch(fetch, fromEnv({ return402: true }));
const anthropic = new Anthropic({ baseURL: process.env.MODEL_URL, apiKey: "none", fetch: paying });
const messages = [{ role: "user", content: "How is the weather?" }];
const answer = await anthropic.messages.create({ model: "any", max_tokens: 100, messages });
console.log(answer.content[0].text);
