# Makes a request for each of URLS at once, and prints what each got, as buy.mjs does.
i=0
dir=$(mktemp -d)
for url in $URLS; do
  i=$((i + 1))
  curl -s -m 90 --retry 4 --retry-delay 1 -o "$dir/$i.body" -D "$dir/$i" "$url" &
done
wait
for n in $(seq $i); do
  status=$(awk '/^HTTP\// {s=$2} END {print s}' "$dir/$n") # the last of those that were tried
  declined=$(tr -d '\r' < "$dir/$n" | awk '/^HTTP\// {d=""} tolower($1)=="purser-declined:" {d=$2} END {print d}')
  echo "{\"status\":${status:-0},\"declined\":\"$declined\"}"
done
rm -r "$dir"
