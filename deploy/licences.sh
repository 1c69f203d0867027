#!/bin/sh
# Writes the licences of what is linked into binaries: deploy/licences.sh OUTPUT BINARY…
#
# OUTPUT belongs beside the binaries wherever they are handed on. A licence that is not known, or
# not allowed, fails.
set -eu
if [ $# -lt 2 ]; then
	echo "usage: $0 OUTPUT BINARY…" >&2
	exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
tool=$root/tools/bin/licences
if [ ! -x "$tool" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	tool=$work/licences
	(cd "$root/tools" && go build -o "$tool" ./licences)
fi
out=$1
shift
"$tool" -root "$root" -notices "$out" "$@"
