#!/bin/sh
# Builds a Caddy with purser in it, with xcaddy, from this checkout: deploy/xcaddy.sh [OUTPUT]
#
# The result is what `xcaddy build --with github.com/purserpay/purser/caddymodule` makes of a
# release, with further modules if you name them in WITH, such as
#   WITH="github.com/caddy-dns/cloudflare" deploy/xcaddy.sh
# Only the modules of go.mod are downloaded; after that, nothing is asked of the network.
# VERSION and COMMIT say what is built; without them, git does.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/bin/xcaddy/caddy}
case $out in /*) ;; *) out=$PWD/$out ;; esac
: "${VERSION:=$(git -C "$root" describe --tags --always --dirty 2>/dev/null || echo devel)}"
: "${COMMIT:=$(git -C "$root" rev-parse HEAD 2>/dev/null || true)}"

export GOWORK=off CGO_ENABLED=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

xcaddy=${XCADDY:-$root/tools/bin/xcaddy}
if [ ! -x "$xcaddy" ]; then
	xcaddy=$work/xcaddy
	(cd "$root/tools" && go build -o "$xcaddy" github.com/caddyserver/xcaddy/cmd/xcaddy)
fi

cd "$root"
caddy=$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
set -- build "$caddy" --output "$out" \
	--with github.com/purserpay/purser/caddymodule --replace "github.com/purserpay/purser=$root"
for module in ${WITH:-}; do
	set -- "$@" --with "$module"
done

if [ -z "${WITH:-}" ]; then
	# xcaddy writes a go.mod of its own and looks for the newest version of everything in
	# it, also of what is in this folder. The module cache answers instead, once it holds
	# what go.mod names, checked against go.sum.
	go mod download
	go list -m all >/dev/null
	GOPROXY=file://$(go env GOMODCACHE)/cache/download
	export GOPROXY GONOPROXY=none GOSUMDB=off
fi

module=github.com/purserpay/purser/caddymodule
XCADDY_GO_BUILD_FLAGS="-trimpath -buildvcs=false -tags=nobadger,nomysql,nopgx -ldflags '-s -w"
XCADDY_GO_BUILD_FLAGS="$XCADDY_GO_BUILD_FLAGS -X $module.buildVersion=$VERSION -X $module.buildCommit=$COMMIT'"
export XCADDY_GO_BUILD_FLAGS
export TMPDIR="$work" # xcaddy's own folder, away from any repository
cd "$work"
"$xcaddy" "$@"
