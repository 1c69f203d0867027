#!/bin/sh
# After an installation or an upgrade. dpkg says "configure" and the version that was there before; rpm
# says how many versions there are now.
set -e
case ${1:-} in
configure) earlier=${2:-} ;;
1) earlier= ;;
[2-9]*) earlier=yes ;;
*) exit 0 ;; # dpkg takes something back
esac

# The service's user. /usr/lib/sysusers.d/purser.conf says the same to systemd.
if ! getent passwd purser >/dev/null; then
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers purser.conf
	else
		useradd --system --user-group --home-dir /var/lib/purser --no-create-home --shell /usr/sbin/nologin \
			--comment "purser, which pays for agents" purser
	fi
fi
if [ -z "$earlier" ]; then
	chgrp purser /etc/purser/purser.env
elif [ "$earlier" = yes ]; then
	# rpm gives a file that nobody has edited back to the group root. An operator may have removed it.
	chown --from=:root :purser /etc/purser/purser.env || true
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	if [ -n "$earlier" ]; then
		systemctl try-restart purser.service || echo "purser did not start again: see journalctl -u purser" >&2
	fi
fi
if [ -z "$earlier" ]; then
	echo "purser is installed and not started. As a service: edit /etc/purser/purser.env, then"
	echo "  systemctl enable --now purser"
	echo "For yourself alone: purser init, in a folder of its own."
fi
