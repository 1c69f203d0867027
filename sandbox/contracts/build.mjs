// Compiles the sandbox's contracts into the artifacts that it embeds.
//
//   node build.mjs           write Token.json, Permit2.json, ExactProxy.json and UptoProxy.json
//   node build.mjs --check   compile again and compare with them; exit 1 if they differ
//
// The output depends on the sources, the pinned compiler and the settings below, and on nothing else.
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

// The contracts of each source, and what it imports. Each is compiled by itself, so that no other one changes its code.
const sources = {
  'Token.sol': { contracts: ['Token'], imports: [] },
  'Permit2.sol': { contracts: ['Permit2'], imports: [] },
  'Proxies.sol': { contracts: ['ExactProxy', 'UptoProxy'], imports: ['Permit2.sol'] },
}

function compile(source) {
  const { contracts, imports } = sources[source]
  const text = (name) => readFileSync(beside(name), 'utf8')
  const output = JSON.parse(
    solc.compile(
      JSON.stringify({
        language: 'Solidity',
        sources: Object.fromEntries([source, ...imports].map((name) => [name, { content: text(name) }])),
        settings: {
          ...settings,
          outputSelection: { [source]: { '*': ['abi', 'evm.deployedBytecode.object'] } },
        },
      }),
    ),
  )
  const complaints = output.errors ?? []
  if (complaints.length > 0) {
    // Warnings fail the build too: nobody reads them twice.
    throw new Error(complaints.map((c) => c.formattedMessage).join('\n'))
  }
  return contracts.map((contract) => {
    const compiled = output.contracts[source][contract]
    const artifact = {
      contract,
      source,
      sourceSha256: createHash('sha256').update(text(source)).digest('hex'),
      compiler: solc.version(),
      settings,
      abi: compiled.abi,
      deployedBytecode: '0x' + compiled.evm.deployedBytecode.object,
    }
    return [`${contract}.json`, JSON.stringify(artifact, null, 2) + '\n']
  })
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

for (const [file, built] of Object.keys(sources).flatMap(compile)) {
  if (!process.argv.includes('--check')) {
    writeFileSync(beside(file), built)
    console.log(`Wrote ${file}.`)
    continue
  }
  const committed = readFileSync(beside(file), 'utf8')
  if (committed !== built) {
    console.error(
      `${file} is not what its source compiles to (first difference: ${firstDifference(committed, built)}). ` +
        'Run "node build.mjs" and commit the result.',
    )
    process.exit(1)
  }
  console.log(`${file} is up to date.`)
}
