#!/bin/sh
# Installs purser for Linux or macOS: install.sh [--version VERSION] [--dir FOLDER] [--url URL]
#
# The newest release, unless --version says otherwise, is fetched, compared with the release's SHA256SUMS
# and its programs purser and purser-sandbox are put into /usr/local/bin, or into ~/.local/bin if that
# cannot be written to. Nothing else is changed.
# --url names another place of the files, such as a mirror. Needed: curl or wget, tar, gzip, and sha256sum,
# shasum or openssl.
set -eu
releases=https://github.com/purserpay/purser/releases

fail() {
	echo "purser's install.sh: $*" >&2
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

usage() { echo "usage: install.sh [--version VERSION] [--dir FOLDER] [--url URL]"; }

# fetch URL FILE
fetch() {
	if has curl; then
		case $1 in
		https://*) curl --proto '=https' -fsSL --retry 2 -o "$2" "$1" ;;
		*) curl -fsSL --retry 2 -o "$2" "$1" ;;
		esac
	elif has wget; then
		wget -q -O "$2" "$1"
	else
		fail "neither curl nor wget is here to fetch it with"
	fi || fail "cannot fetch $1: is the version right, and is there a network?"
}

# sum FILE
sum() {
	if has sha256sum; then
		sha256sum "$1" | cut -d' ' -f1
	elif has shasum; then
		shasum -a 256 "$1" | cut -d' ' -f1
	elif has openssl; then
		openssl dgst -sha256 "$1" | sed 's/.*= *//'
	else
		fail "neither sha256sum, shasum nor openssl is here to check it with"
	fi
}

# platform prints how releases name this system.
platform() {
	os=$(uname -s) arch=$(uname -m)
	case $os in
	Linux) os=linux ;;
	Darwin)
		os=darwin
		# A shell under Rosetta says x86_64.
		if [ "$(sysctl -n hw.optional.arm64 2>/dev/null || true)" = 1 ]; then arch=arm64; fi
		;;
	MINGW* | MSYS* | CYGWIN*) fail "for Windows, take purser_windows_amd64.zip or purser_windows_arm64.zip from $releases" ;;
	*) fail "there is no release for $os; build it from source: https://github.com/purserpay/purser" ;;
	esac
	case $arch in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no release for $arch processors; build it from source: https://github.com/purserpay/purser" ;;
	esac
	echo "${os}_$arch"
}

# folder prints where programs are installed if nothing was said.
folder() {
	if [ -d /usr/local/bin ] && [ -w /usr/local/bin ]; then
		echo /usr/local/bin
	elif [ -n "${HOME:-}" ]; then
		echo "$HOME/.local/bin"
	else
		fail "/usr/local/bin cannot be written to and HOME is not set: say where, with --dir"
	fi
}

# copy PROGRAM puts it into the folder under a temporary name, new
copy() {
	new=$(mktemp "$dir/.purser.XXXXXX") || fail "cannot write into $dir"
	{ cp "$work/$name/$1" "$new" && chmod 0755 "$new"; } || fail "cannot write $new"
}

install() {
	name=purser_$(platform)
	if [ -z "$dir" ]; then dir=$(folder); fi
	if ! has tar || ! has gzip; then fail "tar and gzip are needed to unpack it"; fi
	mkdir -p "$dir" 2>/dev/null || true
	if [ ! -d "$dir" ] || [ ! -w "$dir" ]; then
		fail "$dir cannot be written to: say another folder with --dir, or use sudo"
	fi
	dir=$(cd "$dir" && pwd)

	work=$(mktemp -d)
	new=''
	trap 'rm -rf "$work" ${new:+"$new"}' EXIT
	trap 'exit 1' HUP INT TERM
	fetch "$url/SHA256SUMS" "$work/SHA256SUMS"
	# A line is the sum, two characters, and the name.
	want=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$name\.tar\.gz\$/\1/p" "$work/SHA256SUMS")
	[ -n "$want" ] || fail "$url/SHA256SUMS does not name $name.tar.gz; nothing was installed"
	fetch "$url/$name.tar.gz" "$work/$name.tar.gz"
	got=$(sum "$work/$name.tar.gz")
	[ "$got" = "$want" ] || fail "$url/$name.tar.gz is not what its SHA256SUMS says; nothing was installed
  its sum is $got
  it must be $want"
	(cd "$work" && gzip -dc "$name.tar.gz" | tar -xf - "$name/purser" "$name/purser-sandbox") || fail "$name.tar.gz cannot be unpacked; nothing was installed"

	# A purser that runs keeps its file; the new one takes the name at once, if it runs here. Nobody can
	# have made its temporary file before: what is written through a link would be another file.
	copy purser
	said=$("$new" version 2>&1) || fail "the purser of $name.tar.gz does not run here; nothing was installed: $said"
	mv -f "$new" "$dir/purser" || fail "cannot write $dir/purser"
	copy purser-sandbox
	mv -f "$new" "$dir/purser-sandbox" || fail "cannot write $dir/purser-sandbox"
	echo "installed $dir/purser: $said"
	first=$(command -v purser || true)
	if [ -z "$first" ]; then
		echo "$dir is not in your PATH. For this shell: export PATH=\"$dir:\$PATH\""
	elif [ "$first" != "$dir/purser" ]; then
		echo "Your PATH has another purser before it: $first"
	fi
	echo "Begin with: mkdir my-purser && cd my-purser && purser init"
}

# It is the last thing in this file that does something: half a file does nothing.
main() {
	version='' dir='' url=''
	while [ $# -gt 0 ]; do
		case $1 in
		--*=*)
			one=$1
			shift
			set -- "${one%%=*}" "${one#*=}" "$@"
			;;
		esac
		case $1 in
		--help | -h) usage && exit 0 ;;
		--version | --dir | --url) ;;
		*) usage >&2 && fail "$1 is not known" ;;
		esac
		[ -n "${2:-}" ] || fail "$1 needs a value"
		case $1 in
		--version) version=$2 ;;
		--dir) dir=$2 ;;
		--url) url=$2 ;;
		esac
		shift 2
	done
	case $version in
	'' | latest) : "${url:=$releases/latest/download}" ;;
	*[!0-9A-Za-z.+-]*) fail "$version is not a version, such as v1.2.3" ;;
	*) : "${url:=$releases/download/v${version#v}}" ;;
	esac
	url=${url%/}
	install
}

main "$@"
