// Buys one answer. PURSER_URL and PURSER_KEY say who pays, the argument what is bought.
import { createClient, isPurserError, paymentOf } from "purserpay";

const purser = createClient({
  baseUrl: process.env.PURSER_URL ?? "http://127.0.0.1:8402",
  apiKey: process.env.PURSER_KEY,
  maxAmount: "50000", // 0.05 USDC
});

try {
  const answer = await purser.get(process.argv[2]);
  console.log(answer.status, await answer.text());
  console.log("paid with", paymentOf(answer)?.transaction ?? "nothing");
} catch (error) {
  if (!isPurserError(error)) throw error;
  console.error(`${error.code}: ${error.message}`);
  process.exitCode = 1;
}
