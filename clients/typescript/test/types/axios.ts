// That axios' own types fit, and that one can do without them.
import { payWithAxios } from "purserpay/axios";
import axios from "axios";

const off = payWithAxios(axios.create(), { apiKey: "pk", baseUrl: "http://x" });
off();
payWithAxios(axios, { apiKey: "pk", baseUrl: "http://x", maxAmount: "5" });
// @ts-expect-error not an instance
payWithAxios({}, { apiKey: "pk", baseUrl: "http://x" });
