#!/bin/sh
# Builds a program as it is released: deploy/release.sh [OUTPUT [PROGRAM]]
#
# PROGRAM is purser or purser-sandbox.
#
# It is static, without the paths of this machine and without anything that changes from one build
# to the next: the same source and the same Go give the same bytes wherever they are built.
# GOOS and GOARCH choose another platform. VERSION and COMMIT say what is built; without
# them, git does.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/bin/release/purser}
case $out in /*) ;; *) out=$PWD/$out ;; esac
: "${VERSION:=$(git -C "$root" describe --tags --always --dirty 2>/dev/null || echo devel)}"
: "${COMMIT:=$(git -C "$root" rev-parse HEAD 2>/dev/null || true)}"

module=github.com/purserpay/purser/caddymodule
cd "$root"
# git's state is in COMMIT and not stamped by Go, which cannot where there is no .git.
GOWORK=off CGO_ENABLED=0 exec go build -trimpath -buildvcs=false -tags=nobadger,nomysql,nopgx \
	-ldflags "-s -w -buildid= -X $module.buildVersion=$VERSION -X $module.buildCommit=$COMMIT" \
	-o "$out" "./cmd/${2:-purser}"
