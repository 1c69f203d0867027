// undici: its request pays. Its fetch does as well, by wrapFetch.
import { fromEnv, paymentOf } from "purserpay";
import { wrap } from "purserpay/undici";
import * as undici from "undici";

const request = wrap(undici.request, fromEnv());
const answer = await request(`${process.env.SELLER}/weather`);
console.log(await answer.body.json(), paymentOf(answer));
