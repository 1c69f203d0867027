// Drives an API like that of the Coinbase Developer Platform with the vendor's own SDK. It makes an account, asks for it
// again, signs typed data with it, and prints one line of JSON.
import { CdpClient } from "@coinbase/cdp-sdk";

const cdp = new CdpClient({
  apiKeyId: process.env.CDP_API_KEY_ID,
  apiKeySecret: process.env.CDP_API_KEY_SECRET,
  walletSecret: process.env.CDP_WALLET_SECRET,
  basePath: process.env.BASE_URL,
  disableErrorReporting: true,
  disableUsageTracking: true,
});

const idempotencyKey = "8e03978e-40d5-43e8-bc93-6894a57f9324";
const made = await cdp.evm.createAccount({ name: "from-the-sdk", idempotencyKey });
const again = await cdp.evm.createAccount({ name: "from-the-sdk", idempotencyKey });
const found = await cdp.evm.getAccount({ address: made.address });
const typed = JSON.parse(process.env.TYPED_DATA);
delete typed.types.EIP712Domain; // the SDK adds it
const signature = await made.signTypedData(typed);

let conflict = "";
try {
  await cdp.evm.createAccount({ name: "another-name", idempotencyKey });
} catch (error) {
  conflict = error.errorType;
}
console.log(JSON.stringify({ address: made.address, again: again.address, found: found.address, signature, conflict }));
