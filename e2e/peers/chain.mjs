// The facilitators' view of the chain: viem, as Base or as the chain CHAIN_ID, at a JSON-RPC address of our own.

import { createWalletClient, http, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { base } from "viem/chains";
import { env } from "./process.mjs";

/** A viem client that signs with PRIVATE_KEY and talks to RPC_URL. */
export function relayer() {
  const rpc = env("RPC_URL");
  const id = Number(env("CHAIN_ID", "8453"));
  const ether = { name: "Ether", symbol: "ETH", decimals: 18 };
  const chain = id === base.id ? base : { id, name: String(id), nativeCurrency: ether };
  const client = createWalletClient({
    account: privateKeyToAccount(env("PRIVATE_KEY")),
    chain: { ...chain, rpcUrls: { default: { http: [rpc] } } },
    transport: http(rpc, { retryCount: 0, timeout: 20_000 }),
    pollingInterval: 100,
    cacheTime: 0,
  }).extend(publicActions);
  return { ...client, writeContract: inTurn(client) };
}

// An account's transactions carry consecutive numbers, and two sends at once would get the same one. A busy node counts one
// that it has just been sent a little later, so they are counted here as well: not by viem's nonceManager, which forgets
// its count with a send that fails.
function inTurn(client) {
  let last = Promise.resolve();
  let free = 0;
  const send = async (args) => {
    const nonce = Math.max(free, await client.getTransactionCount({ address: client.account.address, blockTag: "pending" }));
    const hash = await client.writeContract({ ...args, nonce });
    free = nonce + 1;
    return hash;
  };
  return (args) => {
    const next = last.then(() => send(args));
    last = next.catch(() => {});
    return next;
  };
}
