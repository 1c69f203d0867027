#!/bin/sh
# After a removal. /var/lib/purser stays, also when all else is purged: wallets are in it.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
case ${1:-} in
remove | purge | 0)
	if [ -d /var/lib/purser ]; then
		echo "/var/lib/purser stays: wallets, keys and books are in it."
	fi
	;;
esac
