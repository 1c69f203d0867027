// axios: an existing instance pays.
import axios from "axios";
import { fromEnv, paymentOf } from "purserpay";
import { wrap } from "purserpay/axios";

const http = wrap(axios.create(), fromEnv());
const answer = await http.get(`${process.env.SELLER}/weather`);
console.log(answer.data, paymentOf(answer));
