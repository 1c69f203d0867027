// Writes vectors.json: transactions and memos as the official client of MPP makes them, with a fixed key and a fixed
// clock. See README.md.
import { createClient, custom, keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { Actions, Transaction } from 'viem/tempo'
import { tempo as chain } from 'viem/tempo/chains'
import { Challenge, Credential } from 'mppx'
import { tempo } from 'mppx/client'
import { writeFileSync } from 'node:fs'

const key = '0x' + '7e'.repeat(32)
const account = privateKeyToAccount(key)
const now = 1_800_000_000
Date.now = () => now * 1000

const pathUSD = '0x20c0000000000000000000000000000000000000'
const bridged = '0x20C000000000000000000000b9537d11c60E8b50'
const payee = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
const others = ['0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC', '0x90F79bf6EB2c4f870365E785982E1f101E93b906']
const fees = { gas: '0x4a837', maxFeePerGas: '0x5de097c00', maxPriorityFeePerGas: '0x3b9aca00' }

const client = createClient({
  account, chain,
  transport: custom({
    async request({ method, params }) {
      switch (method) {
        case 'eth_chainId': return toHex(chain.id)
        case 'eth_fillTransaction': return { raw: '0x', tx: { ...params[0], ...fees, nonce: '0x0', chainId: toHex(chain.id) } }
      }
      throw new Error(method)
    },
  }),
})

const cases = [
  { name: 'plain', currency: pathUSD, amount: '1000' },
  { name: 'sponsored', currency: pathUSD, amount: '1000', details: { feePayer: true } },
  { name: 'splits', currency: bridged, amount: '100000', details: { splits: [
    { recipient: others[0], amount: '20000' }, { recipient: others[1], amount: '1', memo: '0x' + '5a'.repeat(32) }] } },
  { name: 'splits, sponsored', currency: bridged, amount: '1000000', details: { feePayer: true, splits: [{ recipient: others[0], amount: '999999' }] } },
  { name: 'ends early', currency: bridged, amount: '4294967296', expires: new Date((now + 7) * 1000).toISOString() },
  { name: 'client', currency: pathUSD, amount: '18446744073709551616', clientId: 'agent-7', details: { supportedModes: ['pull'] } },
]
const out = [], fixed = []
for (const c of cases) {
  const request = { amount: c.amount, currency: c.currency, recipient: payee, methodDetails: { chainId: chain.id, ...c.details } }
  const challenge = Challenge.from({
    id: 'id-of-' + c.name.replaceAll(/\W/g, '-'), realm: 'api.example.test', method: 'tempo', intent: 'charge',
    expires: c.expires ?? new Date((now + 300) * 1000).toISOString(), request,
  })
  const method = tempo.charge({ account, getClient: () => client, clientId: c.clientId })
  const credential = Credential.deserialize(await method.createCredential({ challenge, context: {} }))
  const transaction = Transaction.deserialize(credential.payload.signature)
  out.push({
    name: c.name, id: challenge.id, realm: challenge.realm, request, expires: challenge.expires, now,
    client: c.clientId ? keccak256(toHex(c.clientId)).slice(0, 22) : '0x' + '00'.repeat(10),
    gas: String(transaction.gas), maxFee: String(transaction.maxFeePerGas), tip: String(transaction.maxPriorityFeePerGas),
    validAfter: transaction.validAfter ?? 0, validBefore: transaction.validBefore, feeToken: transaction.feeToken ?? '',
    signed: credential.payload.signature, hash: keccak256(credential.payload.signature),
  })
}
// The client of MPP leaves the fee token to the account's choice. Here it is named, in each of the currencies.
for (const feeToken of [pathUSD, bridged]) {
  const memo = '0x' + 'c3'.repeat(32)
  const transaction = {
    chainId: chain.id, calls: [Actions.token.transfer.call(client, { token: feeToken, to: payee, amount: 1000n, memo })], feeToken,
    gas: 310207n, maxFeePerGas: 30240000000n, maxPriorityFeePerGas: 1000000000n, nonce: 0, nonceKey: 2n ** 256n - 1n, validBefore: now + 25,
  }
  const signed = await account.signTransaction(transaction, { serializer: Transaction.serialize })
  fixed.push({
    name: 'fee token ' + feeToken, currency: feeToken, payee, amount: '1000', memo, gas: '310207', maxFee: '30240000000', tip: '1000000000',
    validBefore: now + 25, signed, hash: keccak256(signed),
  })
}
writeFileSync(new URL('vectors.json', import.meta.url), JSON.stringify({ key, from: account.address, charges: out, transfers: fixed }, null, 1) + '\n')
