// node-fetch: its fetch pays.
import fetch from "node-fetch";
import { fromEnv, paymentOf, wrapFetch } from "purserpay";

const paying = wrapFetch(fetch, fromEnv());
const answer = await paying(`${process.env.SELLER}/weather`);
console.log(await answer.json(), paymentOf(answer));
