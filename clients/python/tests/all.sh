#!/bin/sh
# Runs all tests in parts at the same time, each with a sandbox of its own: they wait for blocks more than for a processor.
cd "$(dirname "$0")/.." || exit 1
PATH=$PWD/.venv/bin:$PATH
coverage erase

part() {
	if said=$(coverage run -p -m pytest "$@" 2>&1); then
		echo "$* $(echo "$said" | tail -n 1)"
	else
		echo "$* FAILED"
		echo "$said" | tail -n 300
		return 1
	fi
}

scenarios=tests/test_scenarios.py hostile=tests/test_hostile.py frameworks=tests/test_frameworks.py
fakes="tests/test_paying.py tests/test_unclear.py tests/test_vectors.py"
part $scenarios -k RealHttpx & parts=$!
part $scenarios -k RealAsync & parts="$parts $!"
part $scenarios -k "RealUrllib3 or RealAiohttp" & parts="$parts $!"
part $scenarios -k "RealTrio or RealRequests" & parts="$parts $!"
part $frameworks -k "openai or langchain or litellm" & parts="$parts $!"
part $frameworks -k "not openai and not langchain and not litellm" & parts="$parts $!"
part $hostile & parts="$parts $!"
part $fakes & parts="$parts $!"
part tests $(printf -- '--ignore=%s ' $scenarios $hostile $frameworks $fakes) & parts="$parts $!"
failed=0
for one in $parts; do wait "$one" || failed=1; done
[ $failed = 0 ] && coverage combine -q && coverage report --fail-under=95 --skip-covered
