// A LangChain tool that an agent buys reports with. The model chooses the URL, so the hosts and the price are capped,
// and refusals go back to the model as text.
import { tool } from "@langchain/core/tools";
import { createClient, isPurserError } from "purserpay";
import { z } from "zod";

const purser = createClient({
  baseUrl: process.env.PURSER_URL ?? "http://127.0.0.1:8402",
  apiKey: process.env.PURSER_KEY,
  maxAmount: "50000",
  allowHosts: [new URL(process.argv[2]).host],
});

export const buyReport = tool(
  async ({ url }, config) => {
    try {
      const answer = await purser.get(url, { signal: config.signal });
      return await answer.text();
    } catch (error) {
      if (isPurserError(error)) return `Not bought (${error.code}): ${error.message}`;
      throw error;
    }
  },
  {
    name: "buy_report",
    description: "Fetches a report from a paid API. Each call costs money.",
    schema: z.object({ url: z.url() }),
  },
);

for (const url of process.argv.slice(2)) console.log(await buyReport.invoke({ url }));
