// The official client of npm, as its documentation has it.

import { Mppx, tempo } from "mppx/client";
import { evm } from "mppx/evm/client";
import { createClient, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { tempo as tempoChain } from "viem/chains";

const { TEMPO_RPC_URL } = process.env;
export const { KEY } = process.env;
const USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";

/** The client, with another fetch if one is given. */
export function client(fetch) {
  const account = privateKeyToAccount(KEY);
  const methods = [
    evm.charge({ account, authorization: { name: "USD Coin", version: "2" }, decimals: 6, currencies: [USDC], networks: [8453] }),
  ];
  if (TEMPO_RPC_URL) {
    const chain = { ...tempoChain, id: 4217, rpcUrls: { default: { http: [TEMPO_RPC_URL] } } };
    methods.push(tempo.charge({ account, getClient: () => createClient({ chain, transport: http(TEMPO_RPC_URL) }) }));
  }
  return Mppx.create({ polyfill: false, methods, ...(fetch && { fetch }) });
}
