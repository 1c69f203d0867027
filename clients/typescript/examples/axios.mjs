// The same with axios: an instance that pays.
import { payWithAxios } from "purserpay/axios";
import axios from "axios";

const http = axios.create();
payWithAxios(http, {
  baseUrl: process.env.PURSER_URL ?? "http://127.0.0.1:8402",
  apiKey: process.env.PURSER_KEY,
  maxAmount: "50000",
});

const { status, data } = await http.get(process.argv[2]);
console.log(status, data);
