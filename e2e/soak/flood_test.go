package soak

import (
	"bytes"
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var floodFlag = flag.Duration("flood.for", 0, "how long one key floods purser, and how long it is quiet before; 0: briefly, and no latency is judged")

// floodFactor bounds how much a flood may multiply the p99 of another key's payments.
const floodFactor = 3

// flood is one key against all others: everything that it can do at once to have other keys wait.
type flood struct {
	*load
	refused, fat string // challenges of a seller whose payments the facilitator refuses
	serial       atomic.Uint64
	counts       sync.Map // by what was sent and answered, *atomic.Int64
}

const flooder, other = 0, 1 // keys

// The flood has so many clients at a time.
const (
	repeaters = 8 // attempts under one idempotency key
	fatteners = 8 // attempts with large challenges, each for another URL
	askers    = 4 // requests at the proxy whose uploads the seller does not read
	costs     = 4 // requests of each kind that costs purser much and the key nothing
	// uploads of uploadSize wait for their answer, which is more than all request bodies have room for.
	uploads, uploadSize = 280, 5 << 20
	// uploadEvery is when the next one begins, which makes a hundred megabytes a second.
	uploadEvery = 50 * time.Millisecond
	// floodPause follows each request of the other clients, so that they leave the machine time for purser.
	floodPause = 20 * time.Millisecond
	// fatSize is nearly what a challenge may have.
	fatSize = 60 << 10
)

// measured are the other key's payments.
var measured = []kind{
	{name: "proxy", count: 2, pause: 5 * time.Millisecond, do: func(l *load, ctx context.Context, _ int, n uint64) error {
		return l.proxyHTTP(ctx, other, n)
	}},
	{name: "proxy post", count: 2, pause: 5 * time.Millisecond, do: func(l *load, ctx context.Context, _ int, n uint64) error {
		return l.proxyPost(ctx, other, n, 100<<10)
	}},
	{name: "pay as payer", count: 2, pause: 5 * time.Millisecond, do: func(l *load, ctx context.Context, _ int, n uint64) error {
		return l.payPayer(ctx, other, n)
	}},
}

// TestFlood measures what another key's payments take while it is quiet, and while one key floods.
func TestFlood(t *testing.T) {
	f := newFlood(t)
	f.judge(t, f.start)
}

// TestFloodOfCosts is TestFlood with what costs the flooding key nothing: challenges that cost CPU,
// questions to the RPC, and payments that never end.
func TestFloodOfCosts(t *testing.T) {
	f := newFlood(t)
	f.judge(t, f.startCosts)
	if f.answered("unfunded 200") == 0 || f.answered("pattern quote 429") == 0 && *floodFlag > 0 {
		t.Error("the flood did not flood, or nothing bounds its quotes")
	}
}

func newFlood(t *testing.T) *flood {
	t.Helper()
	s := startSmall(t, 2)
	f := &flood{load: s.load}
	f.refused = s.world.challengeOf(t, refusedPayee, "goods")
	f.fat = s.world.challengeOf(t, refusedPayee, strings.Repeat("fat ", fatSize/4/4*3))
	f.pay1(t)
	return f
}

// judge compares the payments of the other key before and during a flood.
func (f *flood) judge(t *testing.T, start func(t *testing.T) (stop func())) {
	t.Helper()
	length := *floodFlag
	if length == 0 {
		length = time.Second
	}
	s := f.load
	quiet := f.measure(t, length)
	stop := start(t)
	flooded := f.measure(t, length)
	stop()
	state, err := s.purser.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(f.table(quiet, flooded, state))
	for _, k := range measured {
		before, after := quiet[k.name], flooded[k.name]
		if before.failed+after.failed > 0 || len(before.times) == 0 || len(after.times) == 0 {
			t.Errorf("%s: %d and %d paid, %d and %d failed", k.name, len(before.times), len(after.times), before.failed, after.failed)
			continue
		}
		if factor := float64(at(after, 99)) / float64(at(before, 99)); *floodFlag > 0 && factor >= floodFactor {
			t.Errorf("%s: the p99 grows by a factor of %.1f, from %s to %s", k.name, factor, at(before, 99), at(after, 99))
		}
	}
	close(s.failures)
	for err := range s.failures {
		t.Log(err)
	}
}

// pay1 has each measured kind pay once, so that what is made at the first time is there.
func (f *flood) pay1(t *testing.T) {
	t.Helper()
	for _, k := range measured {
		if err := k.do(f.load, t.Context(), other, f.load.serial.Add(1)); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
	}
}

// measure has the other key pay for a while.
func (f *flood) measure(t *testing.T, length time.Duration) map[string]tally {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		seen = map[string]tally{}
	)
	for _, k := range measured {
		for range k.count {
			all.Go(func() {
				for first := true; first || ctx.Err() == nil; first = false {
					n := f.load.serial.Add(1)
					began := time.Now()
					err := k.do(f.load, t.Context(), other, n)
					took := time.Since(began)
					mu.Lock()
					tally := seen[k.name]
					if err == nil {
						tally.times = append(tally.times, took)
					} else {
						tally.failed++
						select {
						case f.failures <- fmt.Errorf("%s: %w", k.name, err):
						default: // there are enough
						}
					}
					seen[k.name] = tally
					mu.Unlock()
					time.Sleep(k.pause)
				}
			})
		}
	}
	all.Wait()
	return seen
}

// wave is one kind of request of the flood, from some clients at a time.
type wave struct {
	clients int
	do      func(ctx context.Context, n uint64) (answer, error)
}

// flow begins waves, and others that more begins. stop ends all.
func (f *flood) flow(t *testing.T, waves map[string]wave, more func(ctx context.Context, all *sync.WaitGroup)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f.world.hold("sink")
	all := new(sync.WaitGroup)
	stop = sync.OnceFunc(func() {
		cancel()
		f.world.release("sink")
		all.Wait()
	})
	t.Cleanup(stop)
	more(ctx, all)
	for what, w := range waves {
		for range w.clients {
			all.Go(func() {
				for ctx.Err() == nil {
					f.count(what, func() (answer, error) { return w.do(ctx, f.serial.Add(1)) })
					time.Sleep(floodPause)
				}
			})
		}
	}
	return stop
}

// startCosts begins a flood of what costs its key nothing. stop ends it.
func (f *flood) startCosts(t *testing.T) (stop func()) {
	t.Helper()
	entry := func(extra string) string {
		return fmt.Sprintf(`{"scheme":"exact","network":%q,"amount":"%d","asset":%q,"payTo":%q,"maxTimeoutSeconds":60,"extra":{"name":%q,"version":%q%s}}`,
			f.world.network.CAIP2(), price, f.world.token.Address, f.world.payTo, f.world.token.Name, f.world.token.Version, extra)
	}
	challenge := func(entry, extensions string) string {
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"x402Version":2,"error":"","resource":{"url":"http://%s/paid"},"accepts":[%s],"extensions":%s}`,
			nameGood, strings.Repeat(entry+",", 63)+entry, extensions))
	}
	pattern := challenge(strings.Replace(entry(""), fmt.Sprintf(`"amount":"%d"`, price), `"amount":"0"`, 1), fmt.Sprintf(
		`{"payment-identifier":{"info":{"required":false},"schema":{"properties":{"id":{"pattern":%q}}}}}`, strings.Repeat(".{0,999}", 15)))
	allowances := challenge(entry(`,"assetTransferMethod":"permit2"`), "{}")
	paid, err := f.pay(t.Context(), flooder, f.serial.Add(1), `,"settlement":"seller"`)
	mustDo(t, err)
	used := inHeader(t, map[string]any{"success": false, "errorReason": "nonce_already_used", "network": f.world.network.CAIP2()})
	call := func(path, body string) func(context.Context, uint64) (answer, error) {
		return func(ctx context.Context, n uint64) (answer, error) {
			return ask(ctx, f.plain, http.MethodPost, f.purser.URL(path), strings.ReplaceAll(body, "NUMBER", fmt.Sprint(n)), "X-Api-Key", f.keys[flooder].secret)
		}
	}
	order := func(challenge, host, more string) string {
		return fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":"http://%s.soak.test/paid?n=NUMBER"%s}`, challenge, host, more)
	}
	return f.flow(t, map[string]wave{
		"pattern quote":   {costs, call("/v1/quote", order(pattern, "costs", ""))},
		"pattern payment": {costs, call("/v1/pay", order(pattern, "costs", ""))},
		"allowance quote": {costs, call("/v1/quote", order(allowances, "costs", ""))},
		"allowance":       {costs, call("/v1/pay", order(allowances, "costs", ""))},
		"unfunded":        {costs, call("/v1/pay", order(f.world.challenge, "hNUMBER", `,"settlement":"seller"`))},
		"receipt":         {costs, call("/v1/payments/"+paid.Payment.ID+"/receipt", fmt.Sprintf(`{"receipt":%q}`, used))},
	}, func(context.Context, *sync.WaitGroup) {})
}

// answered returns how often something was sent and answered so.
func (f *flood) answered(how string) int64 {
	if n, any := f.counts.Load(how); any {
		return n.(*atomic.Int64).Load()
	}
	return 0
}

// start begins a flood of payments and uploads. stop ends it.
func (f *flood) start(t *testing.T) (stop func()) {
	t.Helper()
	body := make([]byte, uploadSize)
	return f.flow(t, map[string]wave{
		"repeat": {repeaters, func(ctx context.Context, _ uint64) (answer, error) {
			return f.attempt(ctx, f.refused, 0, `,"idempotencyKey":"flood"`)
		}},
		"fat": {fatteners, func(ctx context.Context, n uint64) (answer, error) { return f.attempt(ctx, f.fat, n, "") }},
		"ask": {askers, func(ctx context.Context, n uint64) (answer, error) {
			return f.post(ctx, flooder, "/paid", n, body[:512<<10])()
		}},
	}, func(ctx context.Context, all *sync.WaitGroup) {
		all.Go(func() {
			next := time.NewTicker(uploadEvery)
			defer next.Stop()
			for n := 0; n < uploads && ctx.Err() == nil; n++ {
				all.Go(func() { f.count("upload", f.post(ctx, flooder, "/sink", f.serial.Add(1), body)) })
				select {
				case <-next.C:
				case <-ctx.Done():
				}
			}
		})
	})
}

// count makes a request and counts how it was answered.
func (f *flood) count(what string, do func() (answer, error)) {
	got, err := do()
	how := "no answer"
	if err == nil {
		how = strconv.Itoa(got.Status)
	}
	n, _ := f.counts.LoadOrStore(what+" "+how, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// attempt asks the REST API for a payment that its facilitator refuses.
func (f *flood) attempt(ctx context.Context, challenge string, n uint64, more string) (answer, error) {
	body := fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":"http://h%d.soak.test/paid?n=%d"%s}`, challenge, n%64, n, more)
	return ask(ctx, f.plain, http.MethodPost, f.purser.URL("/v1/pay"), body, "X-Api-Key", f.keys[flooder].secret)
}

// post sends a body through the proxy.
func (l *load) post(ctx context.Context, k int, page string, n uint64, body []byte) func() (answer, error) {
	return func() (answer, error) {
		return ask(ctx, l.proxied[k], http.MethodPost, l.target("http", nameGood, page, n), string(body))
	}
}

// proxyPost pays for a request with a body.
func (l *load) proxyPost(ctx context.Context, k int, n uint64, size int) error {
	got, err := l.post(ctx, k, "/paid", n, bytes.Repeat([]byte("x"), size))()
	return want(got, err, http.StatusOK, true)
}

// at is a percentile.
func at(t tally, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(t.times))
	return sorted[len(sorted)*percent/100].Round(10 * time.Microsecond)
}

// table prints the measurements for people.
func (f *flood) table(quiet, flooded map[string]tally, s state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-14s %8s %10s %10s %8s %10s %10s %7s\n", "another key's", "quiet", "p50", "p99", "flooded", "p50", "p99", "factor")
	for _, k := range measured {
		before, after := quiet[k.name], flooded[k.name]
		if len(before.times) == 0 || len(after.times) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%-14s %8d %10s %10s %8d %10s %10s %7.1f\n", k.name, len(before.times), at(before, 50), at(before, 99),
			len(after.times), at(after, 50), at(after, 99), float64(at(after, 99))/float64(at(before, 99)))
	}
	var lines []string
	f.counts.Range(func(how, n any) bool {
		lines = append(lines, fmt.Sprintf("%s: %d", how, n.(*atomic.Int64).Load()))
		return true
	})
	slices.Sort(lines)
	fmt.Fprintf(&b, "the flood: %s\npurser: own %.0f MiB, file %.0f MiB", strings.Join(lines, ", "), s.OwnMB, s.FileMB)
	return b.String()
}
