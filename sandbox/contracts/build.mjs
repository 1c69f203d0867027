// Compiles Token.sol into Token.json, the artifact that the sandbox embeds.
//
//   node build.mjs           write Token.json
//   node build.mjs --check   compile again and compare with Token.json; exit 1 if they differ
//
// The output depends on the source, the pinned compiler and the settings below, and on nothing else.
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import solc from 'solc'

const beside = (name) => new URL(name, import.meta.url)

// Cancun is the newest rule set that both Base and the sandbox chain run. Without metadata, the code is a function of
// what the contract does: a changed comment does not change it.
const settings = {
  evmVersion: 'cancun',
  optimizer: { enabled: true, runs: 10000 },
  viaIR: true,
  metadata: { appendCBOR: false, bytecodeHash: 'none' },
}

function compile() {
  const source = readFileSync(beside('Token.sol'), 'utf8')
  const output = JSON.parse(
    solc.compile(
      JSON.stringify({
        language: 'Solidity',
        sources: { 'Token.sol': { content: source } },
        settings: {
          ...settings,
          outputSelection: { 'Token.sol': { Token: ['abi', 'evm.deployedBytecode.object'] } },
        },
      }),
    ),
  )
  const complaints = output.errors ?? []
  if (complaints.length > 0) {
    // Warnings fail the build too: nobody reads them twice.
    throw new Error(complaints.map((c) => c.formattedMessage).join('\n'))
  }
  const token = output.contracts['Token.sol'].Token
  const artifact = {
    contract: 'Token',
    source: 'Token.sol',
    sourceSha256: createHash('sha256').update(source).digest('hex'),
    compiler: solc.version(),
    settings,
    abi: token.abi,
    deployedBytecode: '0x' + token.evm.deployedBytecode.object,
  }
  return JSON.stringify(artifact, null, 2) + '\n'
}

function firstDifference(committed, built) {
  const is = JSON.parse(built)
  let was
  try {
    was = JSON.parse(committed)
  } catch {
    return 'it is not JSON'
  }
  for (const key of Object.keys(is)) {
    if (JSON.stringify(was[key]) !== JSON.stringify(is[key])) return key
  }
  return 'formatting'
}

const built = compile()
if (process.argv.includes('--check')) {
  const committed = readFileSync(beside('Token.json'), 'utf8')
  if (committed !== built) {
    console.error(
      `Token.json is not what Token.sol compiles to (first difference: ${firstDifference(committed, built)}). ` +
        'Run "node build.mjs" and commit the result.',
    )
    process.exit(1)
  }
  console.log('Token.json is up to date.')
} else {
  writeFileSync(beside('Token.json'), built)
  console.log('Wrote Token.json.')
}
