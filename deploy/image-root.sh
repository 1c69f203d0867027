#!/bin/sh
# Lays out the files of the image: deploy/image-root.sh BINARY OUTPUT
#
# OUTPUT/root belongs to root in the image, OUTPUT/owned to the user that purser runs as.
# Certificates of the public authorities are taken from CA_BUNDLE, else from where Linux
# distributions keep them. Licences of what is linked in come from NOTICES, if it is given.
set -eu
if [ $# -ne 2 ]; then
	echo "usage: $0 BINARY OUTPUT" >&2
	exit 2
fi
binary=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
bundle=${CA_BUNDLE:-}
for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
	if [ -z "$bundle" ] && [ -s "$file" ]; then
		bundle=$file
	fi
done
if [ -z "$bundle" ]; then
	echo "$0: no certificates of public authorities: name them in CA_BUNDLE" >&2
	exit 1
fi

umask 022
rm -rf "$out"
mkdir -p "$out/root/usr/bin" "$out/root/usr/share/doc/purser" "$out/root/etc/purser" "$out/root/etc/ssl/certs"
install -m 0755 "$binary" "$out/root/usr/bin/purser"
install -m 0644 "$here/xcaddy.Caddyfile" "$out/root/etc/purser/Caddyfile"
install -m 0644 "$bundle" "$out/root/etc/ssl/certs/ca-certificates.crt"
install -m 0644 "$here/LICENSE" "$out/root/usr/share/doc/purser/LICENSE"
if [ -n "${NOTICES:-}" ]; then
	install -m 0644 "$NOTICES" "$out/root/usr/share/doc/purser/NOTICES"
fi
echo 'root:x:0:0:root:/:/sbin/nologin
purser:x:65532:65532:purser:/data:/sbin/nologin' >"$out/root/etc/passwd"
echo 'root:x:0:
purser:x:65532:' >"$out/root/etc/group"
mkdir -p "$out/owned/data" "$out/owned/tmp"
chmod 0700 "$out/owned/data" "$out/owned/tmp"
