// That axios' own types fit, and that one can do without them.
import { payWithAxios, wrap } from "purserpay/axios";
import axios from "axios";

const off = payWithAxios(axios.create(), { apiKey: "pk", baseUrl: "http://x" });
off();
payWithAxios(axios, { apiKey: "pk", baseUrl: "http://x", maxAmount: "5" });
// @ts-expect-error not an instance
payWithAxios({}, { apiKey: "pk", baseUrl: "http://x" });
const paying = wrap(axios.create(), { apiKey: "pk", baseUrl: "http://x" });
// As README.md has it: axios' types do not know the terms of one request.
void paying.get<{ a: 1 }>("https://x.example", { purser: { maxAmount: "0.02 USDC" } } as object).then(({ data }) => data.a);
