#!/bin/sh
# Before a removal; dpkg says "remove" then, rpm how many versions stay. An upgrade stops nothing.
set -e
case ${1:-} in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl --no-reload disable --now purser.service || true
	fi
	;;
esac
