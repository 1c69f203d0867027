// got: an instance that pays.
import got from "got";
import { fromEnv, paymentOf } from "purserpay";
import { wrap } from "purserpay/got";

const paying = wrap(got, fromEnv());
const answer = await paying.get(`${process.env.SELLER}/weather`, { responseType: "json" });
console.log(answer.body, paymentOf(answer));
