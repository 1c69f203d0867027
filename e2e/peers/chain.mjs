// The facilitators' view of the chain: viem, as Base, at a JSON-RPC address of our own.

import { createWalletClient, http, publicActions } from "viem";
import { nonceManager, privateKeyToAccount } from "viem/accounts";
import { base } from "viem/chains";
import { env } from "./process.mjs";

/** A viem client that signs with PRIVATE_KEY and talks to RPC_URL. */
export function relayer() {
  const rpc = env("RPC_URL");
  const client = createWalletClient({
    account: privateKeyToAccount(env("PRIVATE_KEY"), { nonceManager }),
    chain: { ...base, rpcUrls: { default: { http: [rpc] } } },
    transport: http(rpc, { retryCount: 0, timeout: 20_000 }),
    pollingInterval: 100,
    cacheTime: 0,
  }).extend(publicActions);
  return { ...client, writeContract: inTurn((args) => client.writeContract(args)) };
}

// An account's transactions carry consecutive numbers. A busy node counts one that it has just been sent a little later,
// so the client counts along; and two sends at once would get the same number.
function inTurn(send) {
  let last = Promise.resolve();
  return (args) => {
    const next = last.then(() => send(args));
    last = next.catch(() => {});
    return next;
  };
}
