// ky: an instance that pays.
import ky from "ky";
import { fromEnv, wrapFetch } from "purserpay";

const paying = ky.extend({ fetch: wrapFetch(fetch, fromEnv()) });
console.log(await paying.get(`${process.env.SELLER}/weather`).json());
