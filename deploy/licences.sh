#!/bin/sh
# Writes the licences of what is linked into a binary: deploy/licences.sh BINARY OUTPUT
#
# OUTPUT belongs beside the binary wherever it is handed on. A licence that is not known, or
# not allowed, fails.
set -eu
if [ $# -ne 2 ]; then
	echo "usage: $0 BINARY OUTPUT" >&2
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
"$tool" -root "$root" -notices "$2" "$1"
