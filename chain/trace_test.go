package chain_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/pay"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	transaction := hash(0xabc)
	at := func(n *node, number uint64) time.Time { return time.Unix(n.time(number), 0).UTC() }
	for _, c := range []struct {
		name   string
		change func(n *node)
		want   pay.Trace
		at     uint64 // the block of SafeTime
		fails  string
	}{
		{name: "unused, expired at safe", change: func(n *node) {}, at: 1_000_100},
		{name: "unused, not expired", change: func(n *node) { n.safe, n.head = 1_000_005, 1_000_020 }, at: 1_000_005},
		{
			name: "last block before the expiry", change: func(n *node) { n.safe, n.head, n.event = 1_000_029, 1_000_031, 1_000_031 }, at: 1_000_029,
			want: pay.Trace{Used: true, Transaction: transaction},
		},
		{name: "first block of the expiry: later ones cannot use it", change: func(n *node) { n.safe, n.head, n.event, n.canceled = 1_000_030, 1_000_031, 1_000_031, true }, at: 1_000_030},
		{
			name: "used, safe", change: func(n *node) { n.event = 1_000_007 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "used in the safe block", change: func(n *node) { n.event = 1_000_100 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "used before our clock's creation", change: func(n *node) { n.event = 1_000_000 - 299 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "used long before our clock's creation", change: func(n *node) { n.event = 900_000 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "used long before, small ranges only", change: func(n *node) { n.event, n.maxRange = 700_000, 2000 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "used in the chain's first block", change: func(n *node) { n.event = 1 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "used when our clock was years ahead", change: func(n *node) { n.event, n.genesisTime = 999_950, n.genesisTime-1e8 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "used, not safe yet", change: func(n *node) { n.safe, n.head, n.event = 1_000_005, 1_000_020, 1_000_006 }, at: 1_000_005,
			want: pay.Trace{Used: true, Transaction: transaction},
		},
		{
			name: "used in the latest block", change: func(n *node) { n.safe, n.head, n.event = 1_000_005, 1_000_020, 1_000_020 }, at: 1_000_005,
			want: pay.Trace{Used: true, Transaction: transaction},
		},
		{
			name: "canceled, safe", change: func(n *node) { n.event, n.canceled, n.transfer = 1_000_007, true, 0 }, at: 1_000_100,
			want: pay.Trace{Canceled: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "canceled, not safe yet", change: func(n *node) { n.safe, n.head, n.event, n.canceled = 1_000_005, 1_000_020, 1_000_006, true }, at: 1_000_005,
			want: pay.Trace{Canceled: true, Transaction: transaction},
		},
		{
			name: "canceled a day later", change: func(n *node) { n.safe, n.head, n.event, n.canceled = 1_043_300, 1_043_400, 1_043_200, true }, at: 1_043_300,
			want: pay.Trace{Canceled: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "no safe tag", change: func(n *node) { n.noSafe, n.event = true, 1_000_007 }, at: 1_000_090,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "small ranges only", change: func(n *node) { n.maxRange, n.event = 10, 1_000_007 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{
			name: "single blocks only", change: func(n *node) { n.maxRange, n.event = 1, 1_000_007 }, at: 1_000_100,
			want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true},
		},
		{name: "a young chain", change: func(n *node) {
			n.genesisTime, n.safe, n.head, n.event = created.Unix()-20, 60, 60, 12
		}, at: 60, want: pay.Trace{Used: true, Transaction: transaction, SafeUsed: true, SafeLogs: true}},

		{name: "transfer of another amount", change: func(n *node) { n.event, n.transfer = 1_000_007, 9_999 }, fails: "no matching transfer"},
		{name: "no transfer", change: func(n *node) { n.event, n.transfer = 1_000_007, 0 }, fails: "no matching transfer"},
		{name: "used, but no log", change: func(n *node) { n.event, n.hidden = 1_000_007, true }, fails: "have no log of it"},
		{name: "safe block gone", change: func(n *node) { n.gone = true }, fails: "not currently canonical"},
		{name: "latest behind safe", change: func(n *node) { n.safe, n.head, n.lag = 1_000_005, 1_000_020, 16 }, fails: "behind its safe block"},
		{name: "no blocks", change: func(n *node) { n.broken = map[string]any{"eth_getBlockByNumber": nil} }, fails: "does not have the block"},
		{name: "logs refused for good", change: func(n *node) {
			n.event = 1_000_007
			n.broken = map[string]any{"eth_getLogs": refusal{-32000, "no logs here"}}
		}, fails: "no logs here"},
		{name: "state neither true nor false", change: func(n *node) {
			n.broken = map[string]any{"eth_call": "0x" + strings.Repeat("0", 63) + "2"}
		}, fails: "neither true nor false"},
		{name: "state of no token", change: func(n *node) { n.broken = map[string]any{"eth_call": "0x"} }, fails: "no token at"},
		{name: "state too short", change: func(n *node) { n.broken = map[string]any{"eth_call": "0x01"} }, fails: "not one word"},
		{name: "block without time", change: func(n *node) {
			n.broken = map[string]any{"eth_getBlockByNumber": map[string]any{"number": "0x1", "hash": hash(1)}}
		}, fails: "lacks"},
		{name: "another block than asked for", change: func(n *node) {
			n.event = 1_000_007
			n.broken = map[string]any{"eth_getBlockByNumber": n.block(1_000_100)}
		}, fails: "asked for block"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := onBase()
			c.change(n)
			got, err := connect(t, n, chain.Options{}).Trace(t.Context(), query())
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("trace %+v, error %v, want one with %q", got, err, c.fails)
				}
				if got != (pay.Trace{}) {
					t.Errorf("a trace came with the error: %+v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.want.SafeTime, c.want.Chain = at(n, c.at), pay.ChainIdentity{ChainID: 8453, Genesis: hash(0)}
			c.want.SafeNumber, c.want.SafeHash, c.want.Latest = c.at, hash(c.at), at(n, n.head)
			if c.want.Used {
				c.want.Moved = query().Authorization.Value
			}
			if got != c.want {
				t.Errorf("trace %+v\nwant  %+v", got, c.want)
			}
		})
	}
}

// A search of an RPC that gives the logs of a few blocks a call goes on where the last one has stopped.
func TestTraceGoesOnWithItsSearch(t *testing.T) {
	t.Parallel()
	n := onBase()
	n.event, n.maxRange = 1_002_500, 5
	n.safe, n.head = n.event+100, n.event+160
	c := connect(t, n, chain.Options{})
	for tries := 1; ; tries++ {
		n.mu.Lock()
		n.calls = map[string]int{}
		n.mu.Unlock()
		got, err := c.Trace(t.Context(), query())
		n.mu.Lock()
		asked := n.calls["eth_getLogs"]
		n.mu.Unlock()
		if asked > 402 {
			t.Fatalf("%d calls in one search", asked)
		}
		if err == nil {
			if !got.Used || tries < 2 {
				t.Errorf("%+v after %d searches", got, tries)
			}
			return
		}
		if tries == 5 || !strings.Contains(err.Error(), "goes on from there") {
			t.Fatalf("search %d: %v", tries, err)
		}
		n.safe, n.head = n.safe+10, n.head+10 // the chain goes on
	}
}

// A search whose RPC had no log yet of a block finds it all the same, after it has begun anew.
func TestTraceBeginsItsSearchAnew(t *testing.T) {
	t.Parallel()
	n := onBase()
	n.event, n.maxRange, n.hidden = 1_000_007, 5, true
	c := connect(t, n, chain.Options{})
	if _, err := c.Trace(t.Context(), query()); err == nil {
		t.Fatal("found what the RPC does not tell")
	}
	n.hidden = false
	for range 16 {
		if got, err := c.Trace(t.Context(), query()); err == nil {
			if !got.Used {
				t.Errorf("%+v", got)
			}
			return
		}
	}
	t.Error("a block that was read once is never read again")
}

// A log must match the question.
func TestTraceDistrustsLogs(t *testing.T) {
	t.Parallel()
	n := onBase()
	n.event = 1_000_007
	nonce := "0x" + strings.Repeat("0", 63) + "9"
	good := n.log(topicUsed, padded(payer), nonce, "0x")
	for name, logs := range map[string][]any{
		"two":           {good, good},
		"other nonce":   {n.log(topicUsed, padded(payer), padded(payer), "0x")},
		"other payer":   {n.log(topicUsed, padded(payee), nonce, "0x")},
		"other event":   {n.log(topicTransfer, padded(payer), nonce, "0x")},
		"other token":   {with(good, "address", payer.String())},
		"removed":       {with(good, "removed", true)},
		"other block":   {with(good, "blockNumber", "0x5")},
		"bad hash":      {with(good, "transactionHash", "0x12")},
		"no block hash": {with(good, "blockHash", "")},
		"bad number":    {with(good, "blockNumber", "7")},
	} {
		n := onBase()
		n.event = 1_000_007
		n.broken = map[string]any{"eth_getLogs": logs}
		if got, err := connect(t, n, chain.Options{}).Trace(t.Context(), query()); err == nil {
			t.Errorf("%s: trace %+v", name, got)
		}
	}
}

func with(log map[string]any, key string, value any) map[string]any {
	changed := map[string]any{}
	for k, v := range log {
		changed[k] = v
	}
	changed[key] = value
	return changed
}

// A transfer in another transaction of the block is no evidence.
func TestTraceWantsTheTransferOfTheSameTransaction(t *testing.T) {
	t.Parallel()
	n := onBase()
	n.event = 1_000_007
	nonce := "0x" + strings.Repeat("0", 63) + "9"
	value := "0x" + strings.Repeat("0", 60) + "2710"
	used := n.log(topicUsed, padded(payer), nonce, "0x")
	transfer := n.log(topicTransfer, padded(payer), padded(payee), value)
	for name, c := range map[string]struct {
		transfer any
		used     bool
	}{
		"same":              {transfer, true},
		"other transaction": {with(transfer, "transactionHash", hash(7)), false},
		"other token":       {with(transfer, "address", payer.String()), false},
		"other payee":       {n.log(topicTransfer, padded(payer), padded(payer), value), false},
	} {
		n := onBase()
		n.event = 1_000_007
		handler := answers{n, map[bool]any{false: []any{used}, true: []any{c.transfer}}}
		got, err := connect(t, handler, chain.Options{}).Trace(t.Context(), query())
		if got.Used != c.used || (err == nil) != c.used {
			t.Errorf("%s: trace %+v, error %v", name, got, err)
		}
	}
}

func TestSearchIsShort(t *testing.T) {
	t.Parallel()
	n := onBase()
	n.event = 1_000_007
	must(connect(t, n, chain.Options{}).Trace(t.Context(), query()))
	if blocks, logs := n.count("eth_getBlockByNumber"), n.count("eth_getLogs"); blocks > 7 || logs > 2 {
		t.Errorf("%d blocks and %d times logs were asked for", blocks, logs)
	}
}

// A search that finds nothing ends.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		maxRange uint64
		calls    int
	}{"ranges may grow": {0, 25}, "small ranges only": {500, 403}} {
		n := onBase()
		n.event, n.hidden, n.maxRange = 1_000_007, true, c.maxRange
		_, err := connect(t, n, chain.Options{}).Trace(t.Context(), query())
		if calls := n.count("eth_getLogs"); err == nil || calls > c.calls {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
}

// moving is an RPC whose name moves to another machine after some calls, and back after some more.
type moving struct {
	here, there *node
	from, until int32
	calls       *atomic.Int32
}

func (m moving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := m.calls.Add(1); n >= m.from && n < m.until {
		m.there.ServeHTTP(w, r)
		return
	}
	m.here.ServeHTTP(w, r)
}

// An RPC that leads to another chain at any time is no evidence. The other chain may show the
// payment or miss it. It may even have the same id and token, and be gone again for the last calls:
// its blocks give it away.
func TestTraceFromAnRPCThatMoves(t *testing.T) {
	t.Parallel()
	other := func(n *node) *node { n.fork = "e"; return n }
	for name, c := range map[string]struct {
		here, there func(n *node)
		calls       int32 // that a Trace makes before its last round
		used        bool
	}{
		"unused there": {func(n *node) { n.event = 1_000_007 }, func(*node) {}, 2, true},
		"used there":   {func(*node) {}, func(n *node) { n.event = 1_000_007 }, 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for from := int32(1); from <= c.calls; from++ {
				for until := from + 1; until <= c.calls+7; until++ { // the last round has 6 calls
					if until == c.calls+7 {
						until = 100 // it is not given back
					}
					here, there := onBase(), other(onBase())
					c.here(here)
					c.there(there)
					m := moving{here, there, from, until, &atomic.Int32{}}
					got, err := connect(t, m, chain.Options{}).Trace(t.Context(), query())
					if err == nil && got.Chain.Genesis == hash(0) && got.Used != c.used {
						t.Errorf("calls %d to %d from another chain: %+v", from, until-1, got)
					}
				}
			}
		})
	}
}

// Uneven block times must not make the search miss the start, or run forever.
func TestSearchOnAnUnevenChain(t *testing.T) {
	t.Parallel()
	n := onBase()
	n.event = 1_000_007
	uneven := bent{n, created.Unix() - 40_000}
	got, err := connect(t, uneven, chain.Options{}).Trace(t.Context(), query())
	if err != nil || !got.Used {
		t.Fatalf("trace %+v, %v", got, err)
	}
	if blocks := n.count("eth_getBlockByNumber"); blocks > 60 {
		t.Errorf("%d blocks were asked for", blocks)
	}
}

func TestMissingSafeTagIsLoggedOnce(t *testing.T) {
	t.Parallel()
	n := onBase()
	n.noSafe = true
	var logged bytes.Buffer
	c := connect(t, n, chain.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	for range 3 {
		must(c.Trace(t.Context(), query()))
	}
	if got := strings.Count(logged.String(), "finalized"); got != 1 {
		t.Errorf("logged %d times: %s", got, logged.String())
	}
}

// The last safe block that pay kept is checked with the rest.
func TestTraceNamesTheKeptBlock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*node)
		kept   uint64
		want   string
	}{
		"older":              {func(*node) {}, 1_000_000, hash(1_000_000)},
		"the safe one":       {func(*node) {}, 1_000_100, hash(1_000_100)},
		"above the head":     {func(*node) {}, 1_000_200, ""},
		"of another fork":    {func(n *node) { n.fork = "e" }, 1_000_000, strings.TrimSuffix(hash(1_000_000), "f") + "e"},
		"the safe one's":     {func(n *node) { n.fork = "e" }, 1_000_100, strings.TrimSuffix(hash(1_000_100), "f") + "e"},
		"not known any more": {func(n *node) { n.pruned = 1_000_000 }, 1_000_000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := onBase()
			c.change(n)
			q := query()
			q.Kept = &pay.ChainBlock{Number: c.kept, Hash: hash(c.kept)}
			got, err := connect(t, n, chain.Options{}).Trace(t.Context(), q)
			if err != nil || got.KeptHash != c.want {
				t.Errorf("kept block %q, %v; want %q", got.KeptHash, err, c.want)
			}
		})
	}
}
