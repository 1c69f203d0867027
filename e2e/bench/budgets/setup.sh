#!/bin/sh
# Installs what compare.py needs into DIR: LiteLLM, Prisma's engine, and a client for LiteLLM's schema.
# Debian's postgresql and redis-server come from apt.
set -eu
dir=${1:?a folder to install into}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q -r "$here/requirements.txt"
cp "$here/engine/package.json" "$here/engine/package-lock.json" "$here/engine/query-engine.cjs" "$dir"
(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund)

# The generator wants engines for all platforms of the schema. The one that runs is query-engine.cjs.
packages=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
sed '/binaryTargets/d' "$packages/litellm_proxy_extras/schema.prisma" > "$dir/schema.prisma"
export PATH="$dir/venv/bin:$PATH" DATABASE_URL=postgresql:// CHECKPOINT_DISABLE=1
export PRISMA_QUERY_ENGINE_BINARY="$dir/query-engine.cjs" PRISMA_SCHEMA_ENGINE_BINARY="$dir/query-engine.cjs"
export PRISMA_CLI_QUERY_ENGINE_TYPE=binary
cd "$dir" && node node_modules/prisma/build/index.js generate --schema=schema.prisma
