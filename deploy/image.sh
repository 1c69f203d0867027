#!/bin/sh
# Builds the image from a binary: deploy/image.sh [BINARY [TAG]]
#
# The binary is what deploy/release.sh makes, or another static one for Linux. ENGINE is
# podman, buildah or docker, whichever there is; ENGINE_FLAGS and BUILD_FLAGS are added
# before and after its command `build`. No registry is asked for anything.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
binary=${1:-$root/bin/release/purser}
tag=${2:-purser}
engine=${ENGINE:-}
for one in podman buildah docker; do
	if [ -z "$engine" ] && command -v "$one" >/dev/null; then
		engine=$one
	fi
done
if [ -z "$engine" ]; then
	echo "$0: neither podman, buildah nor docker is here" >&2
	exit 1
fi
if [ ! -f "$binary" ]; then
	"$root/deploy/release.sh" "$binary"
fi
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
"$root/deploy/image-root.sh" "$binary" "$context/bin/image"
format=
if [ "${engine##*/}" != docker ]; then
	format="--format docker" # the other one has no health checks
fi
# The flags are lists of words.
# shellcheck disable=SC2086
"$engine" ${ENGINE_FLAGS:-} build $format ${BUILD_FLAGS:-} --target binary -t "$tag" -f "$root/Containerfile" "$context"
