// fetch: a paying one beside the runtime's.
import { fromEnv, paymentOf, wrapFetch } from "purserpay";

const paying = wrapFetch(fetch, fromEnv());
const answer = await paying(`${process.env.SELLER}/weather`);
console.log(await answer.json(), paymentOf(answer));
