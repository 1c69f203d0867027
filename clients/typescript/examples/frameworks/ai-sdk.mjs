// Vercel's AI SDK: a model that is paid by the request.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";
import { fromEnv, wrapFetch } from "purserpay";

const paying = wrapFetch(fetch, fromEnv());
const openai = createOpenAI({ baseURL: process.env.MODEL_URL, apiKey: "none", fetch: paying });
const { text } = await generateText({ model: openai.chat("any"), prompt: "How is the weather?" });
console.log(text);
