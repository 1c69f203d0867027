#!/bin/sh
# Builds what a release offers: deploy/dist.sh [OUTPUT]
#
# For each of PLATFORMS: an archive, and for Linux a .deb and an .rpm, with purser and purser-sandbox, and
# their bills of materials. Beside
# them a Homebrew formula, install.sh and SHA256SUMS. OUTPUT is emptied first. The same source, Go and
# VERSION give the same bytes. Files have no version in their names, so that
# RELEASES/latest/download/FILE stays the address of the newest one.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/bin/dist}
case $out in /*) ;; *) out=$PWD/$out ;; esac
: "${PLATFORMS:=linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}"
: "${RELEASES:=https://github.com/purserpay/purser/releases}"
: "${VERSION:=$(git -C "$root" describe --tags --always --dirty 2>/dev/null || echo devel)}"
: "${COMMIT:=$(git -C "$root" rev-parse HEAD 2>/dev/null || true)}"
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 315532800)}"
case $VERSION in
v[0-9]*.[0-9]*.[0-9]*) ;;
*) VERSION=v0.0.0-dev.g$VERSION ;; # packages need numbers
esac
export VERSION COMMIT SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=$root/tools/bin/archive
if [ ! -x "$archive" ]; then
	archive=$work/archive
	(cd "$root/tools" && go build -o "$archive" ./archive)
fi
nfpm=$root/tools/bin/nfpm
if [ ! -x "$nfpm" ]; then
	nfpm=$work/nfpm
	(cd "$root/tools/nfpm" && go build -o "$nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm)
fi

umask 022
rm -rf "$out"
mkdir -p "$out"

# What a binary says of itself: this system runs one, the other platforms get its texts.
"$root/deploy/release.sh" "$work/here"
mkdir -p "$work/texts/completions" "$work/texts/man"
"$work/here" completion bash >"$work/texts/completions/purser.bash"
"$work/here" completion zsh >"$work/texts/completions/_purser"
"$work/here" completion fish >"$work/texts/completions/purser.fish"
"$work/here" completion powershell >"$work/texts/completions/purser.ps1"
"$work/here" manpage --directory "$work/texts/man" >/dev/null 2>&1
sed -i.bak 's/^\.TH "Caddy" /.TH "purser" /' "$work/texts/man"/*.8
rm -f "$work/texts/man"/*.bak
cp "$root/LICENSE" "$work/texts/"
cp "$root/deploy/packages/README.md" "$work/texts/"

# package makes a .deb or an .rpm of a folder that is laid out as an archive.
package() {
	(cd "$1" && ARCH=$2 COMPLETIONS=$4 "$nfpm" package --config "$root/deploy/packages/nfpm.yaml" --packager "$3" --target "$1.$3" >/dev/null)
}

for platform in $PLATFORMS; do
	os=${platform%/*} arch=${platform#*/}
	name=purser_${os}_$arch
	folder=$work/$name
	binary=$folder/purser sandbox=$folder/purser-sandbox
	if [ "$os" = windows ]; then binary=$binary.exe sandbox=$sandbox.exe; fi
	echo "$name" >&2
	mkdir "$folder"
	GOOS=$os GOARCH=$arch "$root/deploy/release.sh" "$binary"
	GOOS=$os GOARCH=$arch "$root/deploy/release.sh" "$sandbox" purser-sandbox
	cp -R "$work/texts/." "$folder/"
	"$root/deploy/licences.sh" "$folder/NOTICES" "$binary" "$sandbox" >/dev/null
	"$root/deploy/sbom.sh" "$binary" "$out/$name.cdx.json" 2>/dev/null
	"$root/deploy/sbom.sh" "$sandbox" "$out/purser-sandbox_${os}_$arch.cdx.json" 2>/dev/null
	case $os in
	linux)
		rm "$folder/completions/purser.ps1"
		mkdir "$folder/systemd"
		cp "$root/xcaddy.Caddyfile" "$folder/systemd/Caddyfile"
		for file in purser.service purser.sysusers purser.env; do
			cp "$root/deploy/systemd/$file" "$folder/systemd/"
		done
		"$archive" "$out/$name.tar.gz" "$folder"
		gzip -9n "$folder/man"/*.8
		cp "$root/deploy/packages"/*.sh "$folder/"
		package "$folder" "$arch" deb vendor-completions
		package "$folder" "$arch" rpm site-functions
		mv "$folder.deb" "$folder.rpm" "$out/"
		;;
	darwin)
		rm "$folder/completions/purser.ps1"
		"$archive" "$out/$name.tar.gz" "$folder"
		;;
	windows)
		rm -r "$folder/man"
		"$archive" "$out/$name.zip" "$folder"
		;;
	esac
	rm -rf "$folder"
done

sums() { (cd "$out" && { sha256sum "$@" 2>/dev/null || shasum -a 256 "$@"; }); }

# The formula has the addresses and sums of this release; a platform that was not built has neither.
: "${URL:=$RELEASES/download/$VERSION}"
sed -e "s|@VERSION@|${VERSION#v}|" -e "s|@URL@|$URL|" "$root/deploy/packages/purser.rb" >"$out/purser.rb"
for file in purser_darwin_amd64.tar.gz purser_darwin_arm64.tar.gz purser_linux_amd64.tar.gz purser_linux_arm64.tar.gz; do
	if [ -f "$out/$file" ]; then
		sed -i.bak "s|@$file@|$(sums "$file" | cut -d' ' -f1)|" "$out/purser.rb"
	fi
done
rm -f "$out/purser.rb.bak"
sed "s|^releases=.*|releases=$RELEASES|" "$root/deploy/install.sh" >"$out/install.sh"
chmod 0755 "$out/install.sh"
(cd "$out" && sums -- * >"$work/sums")
mv "$work/sums" "$out/SHA256SUMS"
