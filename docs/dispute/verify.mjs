// Checks a file of `purser payments dispute`, without purser: node verify.mjs FILE [--rpc URL] [--body FILE] [--answer FILE]
//
// --body gives the bytes of the request, and --answer those of the answer as the seller sent them.
// It needs Node 20 and viem 2 (npm install viem). Each line begins with "ok", "FAILED", or "said": the last is a claim
// that only whoever has made the file vouches for. The exit status is 1 if something failed.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { createPublicClient, encodeAbiParameters, http, isAddressEqual, keccak256, parseAbi, parseEventLogs, recoverTypedDataAddress, stringToBytes } from "viem";

const { values, positionals } = parseArgs({
  options: { rpc: { type: "string" }, body: { type: "string" }, answer: { type: "string" } },
  allowPositionals: true,
});
if (positionals.length !== 1) {
  console.error("usage: node verify.mjs FILE [--rpc URL] [--body FILE] [--answer FILE]");
  process.exit(2);
}
const dispute = JSON.parse(readFileSync(positionals[0], "utf8"));

// What EIP-3009 and Permit2 have the payer sign. The file's own types are not trusted.
const transfer = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
};
const permit = (witness) => ({
  PermitWitnessTransferFrom: [
    { name: "permitted", type: "TokenPermissions" },
    { name: "spender", type: "address" },
    { name: "nonce", type: "uint256" },
    { name: "deadline", type: "uint256" },
    { name: "witness", type: "Witness" },
  ],
  TokenPermissions: [
    { name: "token", type: "address" },
    { name: "amount", type: "uint256" },
  ],
  Witness: witness,
});
const to = { name: "to", type: "address" };
const after = { name: "validAfter", type: "uint256" };

// Permit2 and the proxies of x402 have the same addresses on every network.
const permit2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const proxies = {
  exact: { address: "0x402085c248EeA27D92E8b30b2C58ed07f9E20001", witness: [to, after] },
  upto: { address: "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002", witness: [to, { name: "facilitator", type: "address" }, after] },
};
const bitmap = parseAbi(["function nonceBitmap(address owner, uint256 word) view returns (uint256)"]);
const token = parseAbi([
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
  "function authorizationState(address authorizer, bytes32 nonce) view returns (bool)",
]);

let failed = false;
const check = (is, what) => {
  console.log(`${is ? "ok    " : "FAILED"} ${what}`);
  failed ||= !is;
};
const hashOf = (bytes) => createHash("sha256").update(bytes).digest("hex");
const said = (what) => console.log(`said   ${what}`);
const same = (a, b) => {
  try {
    return isAddressEqual(a, b);
  } catch {
    return false;
  }
};

const { terms, offered, request, answer, authorization } = dispute;
const { message, domain } = authorization.typed_data;
const challenge = offered.x402Version >= 100 ? offered.accepted.challenge : undefined; // of MPP
const signed = readSigned();

check(dispute.format === "purser-dispute/1", "the file has a form that this program knows");
checkTerms();
await checkSignature();
checkRequest();
tellAnswer();
checkAnswer();
if (values.rpc === undefined) {
  said(`the transfer is in transaction ${dispute.chain?.transaction ?? dispute.chain_unknown}; with --rpc URL it is looked for`);
} else {
  await checkChain(values.rpc).catch((error) => check(false, `the RPC tells of the transfer: ${error.shortMessage ?? error.message}`));
}
console.log(failed ? "The file does not hold." : "All that can be checked holds.");
process.exitCode = failed ? 1 : 0;

// What the wallet has signed, in one form for both ways to pay.
function readSigned() {
  if (authorization.typed_data.primaryType !== "PermitWitnessTransferFrom") {
    return {
      contract: terms.asset,
      token: domain.verifyingContract,
      from: message.from,
      to: message.to,
      amount: message.value,
      data: {
        types: transfer,
        primaryType: "TransferWithAuthorization",
        message: { ...message, value: BigInt(message.value), validAfter: BigInt(message.validAfter), validBefore: BigInt(message.validBefore) },
      },
    };
  }
  const scheme = same(message.spender, proxies.upto.address) ? "upto" : "exact";
  return {
    permit2: true,
    upto: scheme === "upto",
    contract: permit2,
    spender: proxies[scheme].address,
    token: message.permitted.token,
    from: authorization.from,
    to: message.witness.to,
    amount: message.permitted.amount,
    data: {
      types: permit(proxies[scheme].witness),
      primaryType: "PermitWitnessTransferFrom",
      message: {
        ...message,
        permitted: { ...message.permitted, amount: BigInt(message.permitted.amount) },
        nonce: BigInt(message.nonce),
        deadline: BigInt(message.deadline),
        witness: { ...message.witness, validAfter: BigInt(message.witness.validAfter) },
      },
    },
  };
}

// The seller's 402, what was paid and what was signed name the same token, payee and amount.
function checkTerms() {
  const asked = asks();
  const network = offered.x402Version === 1 ? asked.network === terms.network : asked.network === `eip155:${terms.chain_id}`;
  check(network && domain.chainId === terms.chain_id, `the network is ${terms.network}, as the seller asked`);
  check(same(domain.verifyingContract, signed.contract), `the message is for the contract ${signed.contract}`);
  if (signed.permit2) {
    check(same(message.spender, signed.spender), `only x402's proxy ${signed.spender} may use it`);
  }
  check(same(asked.asset, terms.asset) && same(signed.token, terms.asset), `the token is ${terms.asset}, as the seller asked`);
  check(same(asked.payTo, terms.pay_to) && same(signed.to, terms.pay_to), `the payee is ${terms.pay_to}, as the seller asked`);
  const price = String(offered.x402Version === 1 ? asked.maxAmountRequired : asked.amount);
  if (challenge) {
    check(nonces().includes(message.nonce.toLowerCase()), `the nonce is made of the challenge ${challenge.id} in the realm ${challenge.realm}`);
  }
  check(price === terms.amount && signed.amount === terms.amount, `the amount is ${signed.upto ? "at most " : ""}${terms.amount}, as the seller asked`);
  if (offered.extensions?.["offer-receipt"] !== undefined) {
    said("the seller has signed its offer: see offered.extensions, in the form of x402's extension offer-receipt");
  }
}

// The demand of the seller, in the form of x402. A challenge of MPP has it in its request: base64url over HTTP, and an
// object inside MCP.
function asks() {
  if (!challenge) {
    return offered.accepted ?? {};
  }
  const asked = typeof challenge.request === "string" ? JSON.parse(Buffer.from(challenge.request, "base64url").toString("utf8")) : challenge.request;
  return { network: `eip155:${asked.methodDetails?.chainId}`, asset: asked.currency, payTo: asked.recipient, amount: asked.amount };
}

// The nonces that a challenge of MPP makes: id and realm one behind the other, or as a list of JSON, as newer sellers do. So
// the signature is for this very challenge.
function nonces() {
  const { id, realm } = challenge;
  return [id + realm, JSON.stringify([id, realm])].map((text) => keccak256(stringToBytes(text)));
}

// The wallet has signed exactly this transfer.
async function checkSignature() {
  let signer;
  try {
    signer = await recoverTypedDataAddress({ ...signed.data, domain, signature: authorization.signature });
  } catch {
    signer = undefined;
  }
  check(signer !== undefined && same(signer, signed.from), `the wallet ${signed.from} has signed the transfer with nonce ${message.nonce}`);
}

// Method, URL and body give the hash under which the payment was made.
function checkRequest() {
  if (request.method === undefined || request.body_sha256 === undefined) {
    said(`the request went to ${request.url}; ${request.unknown}`);
    return;
  }
  const hash = createHash("sha256");
  for (const part of ["http", request.method, request.url, request.body_sha256]) {
    hash.update(`${Buffer.byteLength(part)}:${part}`);
  }
  check(hash.digest("hex") === request.hash, `the request is ${request.method} ${request.url}, by its hash ${request.hash}`);
  if (values.body !== undefined) {
    check(hashOf(readFileSync(values.body)) === request.body_sha256, `the request's body is that of ${values.body}`);
  }
  if (challenge?.digest !== undefined) {
    const digest = Buffer.from(request.body_sha256, "hex").toString("base64");
    const given = challenge.digest.replace(/^sha-256=:?/, "").replace(/[:=]*$/, "").replaceAll("-", "+").replaceAll("_", "/");
    check(given === digest.replace(/=*$/, ""), "the seller's offer is for this body");
  }
  said(`the payment ${dispute.payment.id} of ${dispute.payment.created_at} was made for this request`);
}

function tellAnswer() {
  if (answer.delivered) {
    said("the seller delivered");
  } else if (answer.status === null) {
    said(`not known: ${answer.unknown}`);
  } else if (answer.status === 0) {
    said("the seller gave no answer");
  } else if (answer.unknown) {
    said(`the seller answered ${answer.status}; not known: ${answer.unknown}`);
  } else {
    said(`the seller answered ${answer.status}, and delivered nothing`);
  }
}

// The bytes of the answer are those that the file has the hash of.
function checkAnswer() {
  const { body } = answer;
  if (body === undefined) {
    said("the file has no hash of an answer");
    if (values.answer !== undefined) {
      check(false, `the answer in ${values.answer} can be compared`);
    }
    return;
  }
  const which = body.complete ? `the answer's ${body.bytes} bytes` : `the first ${body.bytes} bytes of the answer, which was cut,`;
  said(`${which} have the SHA-256 ${body.sha256}`);
  if (values.answer !== undefined) {
    const given = readFileSync(values.answer);
    const bytes = body.complete ? given : given.subarray(0, body.bytes);
    check(bytes.length === body.bytes && hashOf(bytes) === body.sha256, `those bytes are in ${values.answer}`);
  }
}

// The chain has the transfer, and by this very authorization.
async function checkChain(url) {
  const client = createPublicClient({ transport: http(url, { retryCount: 1, timeout: 20_000 }) });
  check((await client.getChainId()) === terms.chain_id, `the RPC is on chain ${terms.chain_id}`);
  check(await spent(client), "the authorization is spent");
  const transaction = dispute.chain?.transaction;
  if (!transaction) {
    check(false, "the file names the transaction");
    return;
  }
  const receipt = await client.getTransactionReceipt({ hash: transaction });
  const moved = signed.upto ? String(dispute.chain.moved) : terms.amount;
  const logs = parseEventLogs({ abi: token, logs: receipt.logs.filter((log) => same(log.address, terms.asset)) });
  const spends = signed.permit2
    ? (await client.getTransaction({ hash: transaction })).input.includes(permitWords())
    : logs.some(
        ({ eventName, args }) => eventName === "AuthorizationUsed" && same(args.authorizer, signed.from) && args.nonce === message.nonce.toLowerCase(),
      );
  const moves = logs.some(
    ({ eventName, args }) =>
      eventName === "Transfer" && same(args.from, signed.from) && same(args.to, terms.pay_to) && String(args.value) === moved,
  );
  check(receipt.status === "success" && spends, `transaction ${transaction} has used the authorization, in block ${receipt.blockNumber}`);
  check(moves && BigInt(moved) <= BigInt(terms.amount), `it has moved ${moved} from ${signed.from} to ${terms.pay_to}`);
}

// Whether the contract has the nonce as used: the token itself, or a bit in Permit2.
async function spent(client) {
  if (!signed.permit2) {
    return client.readContract({ address: terms.asset, abi: token, functionName: "authorizationState", args: [signed.from, message.nonce] });
  }
  const nonce = BigInt(message.nonce);
  const bits = await client.readContract({ address: permit2, abi: bitmap, functionName: "nonceBitmap", args: [signed.from, nonce >> 8n] });
  return ((bits >> (nonce & 255n)) & 1n) === 1n;
}

// The words of the permit in the data of a transaction that uses it: token, amount, nonce and deadline. Permit2 itself
// logs nothing of it.
function permitWords() {
  const { permitted, nonce, deadline } = message;
  const words = encodeAbiParameters(
    [{ type: "address" }, { type: "uint256" }, { type: "uint256" }, { type: "uint256" }],
    [permitted.token, BigInt(permitted.amount), BigInt(nonce), BigInt(deadline)],
  );
  return words.slice(2);
}
