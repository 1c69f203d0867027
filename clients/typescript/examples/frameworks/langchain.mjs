// LangChain: a chat model that is paid by the request.
import { ChatOpenAI } from "@langchain/openai";
import { fromEnv, wrapFetch } from "purserpay";

const paying = wrapFetch(fetch, fromEnv({ return402: true }));
const configuration = { baseURL: process.env.MODEL_URL, fetch: paying };
const model = new ChatOpenAI({ model: "any", apiKey: "none", configuration });
const answer = await model.invoke("How is the weather?");
console.log(answer.content);
