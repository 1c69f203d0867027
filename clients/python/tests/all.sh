#!/bin/sh
# Runs all tests in parts at the same time, each with a sandbox of its own: they wait for blocks more than for a processor.
cd "$(dirname "$0")/.." || exit 1
PATH=$PWD/.venv/bin:$PATH
coverage erase

part() {
	if said=$(coverage run -p -m pytest -q "$@" 2>&1); then
		echo "$* $(echo "$said" | tail -n 1)"
	else
		echo "$* FAILED"
		echo "$said" | tail -n 300
		return 1
	fi
}

scenarios=tests/test_scenarios.py hostile=tests/test_hostile.py frameworks=tests/test_frameworks.py
part $scenarios -k RealHttpx & parts=$!
part $scenarios -k RealAsync & parts="$parts $!"
part $scenarios -k "RealUrllib3 or RealAiohttp" & parts="$parts $!"
part $scenarios -k "RealTrio or RealRequests" & parts="$parts $!"
part $hostile & parts="$parts $!"
part $frameworks & parts="$parts $!"
part tests --ignore=$scenarios --ignore=$hostile --ignore=$frameworks & parts="$parts $!"
failed=0
for one in $parts; do wait "$one" || failed=1; done
[ $failed = 0 ] && coverage combine -q && coverage report --fail-under=95 --skip-covered
