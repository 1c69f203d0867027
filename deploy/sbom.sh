#!/bin/sh
# Writes the bill of materials of a binary, in CycloneDX: deploy/sbom.sh BINARY OUTPUT
#
# It names every module that is linked in, with its version and checksum, and Go itself. The
# same binary gives the same file.
set -eu
if [ $# -ne 2 ]; then
	echo "usage: $0 BINARY OUTPUT" >&2
	exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
: "${VERSION:=$(git -C "$root" describe --tags --always --dirty 2>/dev/null || echo devel)}"
tool=$root/tools/bin/cyclonedx-gomod
if [ ! -x "$tool" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	tool=$work/cyclonedx-gomod
	(cd "$root/tools" && go build -o "$tool" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod)
fi
"$tool" bin -json -std -noserial -notimestamp -version "$VERSION" -output "$2" "$1"
