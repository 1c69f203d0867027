package pay_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// at turns the world's clock to a time.
func (w *world) at(text string) {
	w.t.Helper()
	to := must(time.Parse(time.RFC3339Nano, text))
	w.chain.advance(to.Sub(w.chain.clock()))
}

// spends demands which rule refuses an amount at the proxy; "" pays it.
func (w *world) spends(b buy, want string) {
	w.t.Helper()
	if b.door == "" {
		b.door = policy.DoorProxy
	}
	if b.url == "" {
		b.url = "https://api.example.com/x"
	}
	if _, err := w.open(b); rule(err) != want {
		w.t.Fatalf("at %s, %+v: got %v, want %q", w.chain.clock().Format(time.RFC3339Nano), b, err, want)
	}
}

// A window ends exactly with the last nanosecond before the next one, in UTC.
func TestWindowsRollOver(t *testing.T) {
	t.Parallel()
	one := 1
	for _, c := range []struct {
		rule                string
		pol                 policy.Policy
		first, last, behind string
	}{
		{"daily-budget", policy.Policy{DailyBudget: usdc(10)}, "2026-11-30T00:00:00Z", "2026-11-30T23:59:59.999999999Z", "2026-12-01T00:00:00Z"},
		{"daily-budget", policy.Policy{DailyBudget: usdc(10)}, "2028-02-29T00:00:00Z", "2028-02-29T23:59:59.999999999Z", "2028-03-01T00:00:00Z"},
		{"hourly-budget", policy.Policy{HourlyBudget: usdc(10)}, "2026-11-30T23:00:00Z", "2026-11-30T23:59:59.999999999Z", "2026-12-01T00:00:00Z"},
		{"weekly-budget", policy.Policy{WeeklyBudget: usdc(10)}, "2026-12-28T00:00:00Z", "2027-01-03T23:59:59.999999999Z", "2027-01-04T00:00:00Z"},
		{"host-hourly-budget", policy.Policy{Hosts: map[string]policy.Budget{"*.example.com": {HourlyBudget: usdc(10)}}}, "2026-11-29T08:00:00Z", "2026-11-29T08:59:59.999999999Z", "2026-11-29T09:00:00Z"},
		{"host-weekly-budget", policy.Policy{Hosts: map[string]policy.Budget{"api.example.com": {WeeklyBudget: usdc(10)}}}, "2026-11-30T00:00:00Z", "2026-12-06T23:59:59.999999999Z", "2026-12-07T00:00:00Z"},
		{"task-hourly-budget", policy.Policy{Tasks: map[string]policy.Budget{"*": {HourlyBudget: usdc(10)}}}, "2026-11-29T08:00:00Z", "2026-11-29T08:59:59.999999999Z", "2026-11-29T09:00:00Z"},
		{"task-weekly-budget", policy.Policy{Tasks: map[string]policy.Budget{"*": {WeeklyBudget: usdc(10)}}}, "2026-11-23T00:00:00Z", "2026-11-29T23:59:59.999999999Z", "2026-11-30T00:00:00Z"},
		{"monthly-budget", policy.Policy{MonthlyBudget: usdc(10)}, "2026-12-01T00:00:00Z", "2026-12-31T23:59:59.999999999Z", "2027-01-01T00:00:00Z"},
		{"monthly-budget", policy.Policy{MonthlyBudget: usdc(10)}, "2027-02-01T00:00:00Z", "2027-02-28T23:59:59.999999999Z", "2027-03-01T00:00:00Z"},
		{"per-minute", policy.Policy{PerMinute: &one}, "2026-11-30T12:34:00Z", "2026-11-30T12:34:59.999999999Z", "2026-11-30T12:35:00Z"},
		{"host-daily-budget", policy.Policy{Hosts: map[string]policy.Budget{"api.example.com": {DailyBudget: usdc(10)}}}, "2026-11-29T00:00:00Z", "2026-11-29T23:59:59.999999999Z", "2026-11-30T00:00:00Z"},
		{"host-monthly-budget", policy.Policy{Hosts: map[string]policy.Budget{"api.example.com": {MonthlyBudget: usdc(10)}}}, "2026-12-01T00:00:00Z", "2026-12-31T23:59:59.999999999Z", "2027-01-01T00:00:00Z"},
		{"task-daily-budget", policy.Policy{Tasks: map[string]policy.Budget{"*": {DailyBudget: usdc(10)}}}, "2026-11-29T00:00:00Z", "2026-11-29T23:59:59.999999999Z", "2026-11-30T00:00:00Z"},
		{"task-monthly-budget", policy.Policy{Tasks: map[string]policy.Budget{"*": {MonthlyBudget: usdc(10)}}}, "2026-10-01T00:00:00Z", "2026-10-31T23:59:59.999999999Z", "2026-11-01T00:00:00Z"},
	} {
		// A clock of another zone must not move the windows.
		zone := time.FixedZone("east", 11*60*60)
		var w *world
		w = newWorld(t, func(o *pay.Options) {
			o.Clock = func() time.Time { return w0(w).In(zone) }
		})
		w.set(c.pol)
		w.at(c.first)
		w.spends(buy{amount: 10}, "")
		w.spends(buy{amount: 10}, c.rule)
		w.at(c.last)
		w.spends(buy{amount: 10}, c.rule)
		w.at(c.behind)
		w.spends(buy{amount: 10}, "")
		w.spends(buy{amount: 10}, c.rule)
	}
}

// w0 is the world's clock, also before there is a world.
func w0(w *world) time.Time {
	if w == nil {
		return newTruth().now
	}
	return w.chain.clock()
}

func TestHostBudgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(policy.Policy{DailyBudget: usdc(1000), Hosts: map[string]policy.Budget{
		"*.example.com": {DailyBudget: usdc(100)}, "api.example.com": {DailyBudget: usdc(50)}, "api.example.com:8443": {DailyBudget: usdc(7)},
	}})
	on := func(url string, amount uint64, want string) {
		t.Helper()
		w.spends(buy{url: url, amount: amount}, want)
	}
	on("https://a.example.com/", 60, "")
	on("https://b.example.com/", 41, "host-daily-budget") // both hosts share the pattern's budget
	on("http://B.Example.com:8080/", 40, "")
	on("https://c.d.example.com/", 1, "host-daily-budget")
	on("https://api.example.com/", 50, "") // the most specific pattern counts, and alone
	on("https://api.example.com./", 1, "host-daily-budget")
	on("https://api.example.com:8443/", 7, "")
	on("https://api.example.com:8443/", 1, "host-daily-budget")
	on("https://example.com/", 200, "") // not below itself
	on("https://evil-example.com/", 643, "")
	on("https://other.org/", 1, "daily-budget") // the key's budget holds as well

	w = newWorld(t, nil)
	w.set(policy.Policy{DailyBudget: usdc(1000), Hosts: map[string]policy.Budget{
		"api.example.com": {DailyBudget: usdc(100)}, "mcp://api.example.com/tool/search": {DailyBudget: usdc(10), MaxPayment: usdc(4)},
	}})
	on("mcp://api.example.com/tool/search", 4, "")
	on("mcp://api.example.com/tool/search", 5, "host-per-payment")
	on("mcp://api.example.com/tool/search", 4, "")
	on("mcp://api.example.com/tool/search", 3, "host-daily-budget")
	on("mcp://api.example.com/tool/searches", 60, "") // another tool counts against its server's budget
	on("https://api.example.com/page", 40, "")
	on("mcp://api.example.com/tool/other", 1, "host-daily-budget")
	on("mcp://api.example.com/tool/search", 2, "")
}

// A key that has visited very many sites, or claims so on REST, costs a payment no more than
// others do: later sites of a day share a counter, which counts against every budget of hosts.
func TestBudgetsOfVeryManySites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const own, more = 256, 44
	for i := range own + more {
		w.spends(buy{url: fmt.Sprintf("https://s%d.example.org/", i), amount: 1}, "")
	}
	w.spends(buy{url: "https://s0.example.org/again", amount: 1}, "")                  // has its own
	w.spends(buy{url: "https://" + strings.Repeat("x", 300) + ".org/", amount: 1}, "") // is no DNS name
	kept := 0
	for c := range w.store.Counters() {
		if strings.HasPrefix(c, "site-day/") {
			kept++
		}
	}
	if kept != own+1 {
		t.Errorf("%d counters of sites", kept)
	}
	w.set(policy.Policy{Hosts: map[string]policy.Budget{"*.example.org": {DailyBudget: usdc(own + 1 + more + 1 + 5)}, "b.com": {MonthlyBudget: usdc(more + 1 + 5)}}})
	w.spends(buy{url: "https://s1.example.org/", amount: 6}, "host-daily-budget")
	w.spends(buy{url: "https://b.com/", amount: 6}, "host-monthly-budget")
	w.spends(buy{url: "https://b.com/", amount: 5}, "")
	w.spends(buy{url: "https://s1.example.org/", amount: 1}, "host-daily-budget") // what b.com has spent beyond the own ones counts
	w.checkBooks()
}

func TestTaskBudgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(policy.Policy{DailyBudget: usdc(1000), Tasks: map[string]policy.Budget{
		"*": {DailyBudget: usdc(100)}, "crawl": {DailyBudget: usdc(500)}, "free": {DailyBudget: policy.NoCap()},
	}})
	on := func(task string, amount uint64, want string) {
		t.Helper()
		w.spends(buy{task: task, amount: amount}, want)
	}
	on("made-up-1", 40, "")
	on("made-up-2", 40, "")
	on("", 21, "task-daily-budget")
	on("", 20, "")
	on("made-up-3", 1, "task-daily-budget")
	on("crawl", 500, "")
	on("crawl", 1, "task-daily-budget")
	on("free", 400, "")
	on("free", 1, "daily-budget")

	w = newWorld(t, nil)
	w.set(policy.Policy{Tasks: map[string]policy.Budget{"crawl": {DailyBudget: usdc(5)}}})
	w.spends(buy{task: "made-up", amount: 1000}, "") // without "*" made-up tasks share no limit
	w.spends(buy{amount: 1000}, "")
	w.spends(buy{task: "crawl", amount: 6}, "task-daily-budget")
}

// What a payment spends is counted by key, site and task, whatever rule is in force: a rule that
// is set later costs no more.
func TestFewCounters(t *testing.T) {
	t.Parallel()
	five := 5
	for name, c := range map[string]struct {
		pol  policy.Policy
		more int
	}{
		"no rule": {policy.Policy{}, 0},
		"off":     {policy.Policy{MaxPayment: policy.NoCap(), DailyBudget: policy.NoCap(), MonthlyBudget: policy.NoCap()}, 0},
		"rules without counting": {policy.Policy{
			MaxPayment: usdc(100), Doors: allDoors, DenyHosts: []string{"evil.org"}, DenyPayees: []x402.Address{x402.EVMAddress([20]byte{1})},
			Hosts: map[string]policy.Budget{"*.example.com": {MaxPayment: usdc(50)}}, Tasks: map[string]policy.Budget{"*": {MaxPayment: usdc(50)}},
		}, 0},
		"elsewhere": {policy.Policy{Hosts: map[string]policy.Budget{"b.org": {DailyBudget: usdc(5)}}, Tasks: map[string]policy.Budget{"t": {DailyBudget: usdc(5)}}}, 0},
		"a day":     {policy.Policy{DailyBudget: usdc(100)}, 0},
		"all of them": {policy.Policy{
			DailyBudget: usdc(100), MonthlyBudget: usdc(100), PerMinute: &five,
			Hosts: map[string]policy.Budget{"*.example.com": {DailyBudget: usdc(100), MonthlyBudget: usdc(100)}},
			Tasks: map[string]policy.Budget{"*": {DailyBudget: usdc(100), MonthlyBudget: usdc(100)}},
		}, 1}, // the minute
	} {
		w := newWorld(t, nil)
		w.set(c.pol)
		p := w.settle(buy{door: policy.DoorProxy, url: numbered(1), amount: 1})
		if got := len(p.Reservations); got != 6+c.more || p.Price != "" { // place, pending twice, hold, day, site
			t.Errorf("%s: %d reservations, price %q", name, got, p.Price)
		}
		p = w.settle(buy{door: policy.DoorProxy, url: numbered(2), task: "t", amount: 1})
		if got := len(p.Reservations); got != 7+c.more {
			t.Errorf("%s, with a task: %d reservations", name, got)
		}
	}
	w := newWorld(t, nil)
	if p, err := w.open(buy{door: policy.DoorAPI, amount: 1}); err != nil || len(p.Reservations) != 5 {
		t.Errorf("without a URL: %+v, %v", p, err)
	}
}

// What did not move money gives it back as soon as it cannot move any more, to every
// budget it was taken from; a rate is never given back.
func TestBudgetsGetTheirMoneyBack(t *testing.T) {
	t.Parallel()
	ten := 10
	pol := policy.Policy{
		DailyBudget: usdc(10), MonthlyBudget: usdc(10), PerMinute: &ten,
		Hosts: map[string]policy.Budget{"*.example.com": {DailyBudget: usdc(10), MonthlyBudget: usdc(10)}},
		Tasks: map[string]policy.Budget{"*": {DailyBudget: usdc(10), MonthlyBudget: usdc(10)}},
	}
	limited := func(t *testing.T) *world {
		w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
		pol.AllowPayees = []x402.Address{testPayee}
		w.set(pol)
		return w
	}
	// left checks what each budget has reserved. All of them expect the same counter value.
	left := func(t *testing.T, w *world, p *pay.Payment, want string) {
		t.Helper()
		budgets := 0
		for _, r := range p.Reservations {
			switch kind, _, _ := strings.Cut(string(r.Counter), "/"); kind {
			case "day", "site-day", "task-day", "hour", "site-hour", "task-hour":
				budgets++
				if got := w.counter(r.Counter); got != want {
					t.Errorf("%s is %s, want %s", r.Counter, got, want)
				}
			case "minute":
				if got := w.counter(r.Counter); got != "1" {
					t.Errorf("%s is %s", r.Counter, got)
				}
			}
		}
		if budgets != 3 {
			t.Errorf("%d budgets: %+v", budgets, p.Reservations)
		}
	}
	t.Run("void", func(t *testing.T) {
		t.Parallel()
		w := limited(t)
		w.fac.mode("unreachable", "") // so that it has not seen the payload
		a := w.mustOpen(w.request(buy{door: policy.DoorProxy, url: numbered(1), task: "t", amount: 10}))
		p := a.Payment()
		left(t, w, p, "10")
		a.Abandon("no connection")
		left(t, w, p, "10") // that nothing has left is only our word
		w.spends(buy{amount: 1}, "daily-budget")
		w.chain.advance(p.ValidBefore().Add(pay.RepeatGrace).Sub(w.chain.clock()))
		w.recoverOnceAndQuiet()
		left(t, w, p, "0")
		w.spends(buy{amount: 10}, "")
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		w := limited(t)
		w.fac.mode("refuse", "")
		r := w.request(buy{door: policy.DoorAPI, url: numbered(1), task: "t", amount: 10})
		r.Settlement = pay.SettlePayer
		p := w.mustFail(r)
		w.quiet()
		w.fac.mode("", "")
		left(t, w, p, "10") // the facilitator has seen the payload
		w.spends(buy{amount: 1}, "daily-budget")
		w.chain.advance(p.ValidBefore().Add(pay.RepeatGrace).Sub(w.chain.clock()) - 1)
		w.recoverOnceAndQuiet()
		left(t, w, p, "10")
		w.chain.advance(1)
		w.recoverOnceAndQuiet()
		left(t, w, p, "0")
		w.spends(buy{amount: 10}, "")
	})
	t.Run("settled", func(t *testing.T) {
		t.Parallel()
		w := limited(t)
		p := w.settle(buy{door: policy.DoorProxy, url: numbered(1), task: "t", amount: 10})
		left(t, w, p, "10")
		w.spends(buy{amount: 1}, "daily-budget")
	})
	t.Run("unresolved", func(t *testing.T) {
		t.Parallel()
		w := limited(t)
		p := must(w.open(buy{door: policy.DoorProxy, url: numbered(1), task: "t", amount: 10}))
		w.recoverAll()
		if p = w.payment(p.ID); !p.Unresolved {
			t.Fatalf("%s %v", p.State, p.Flags())
		}
		left(t, w, p, "10")
		w.spends(buy{amount: 1}, "daily-budget")
	})
}

func (w *world) recoverOnceAndQuiet() {
	w.t.Helper()
	w.recoverOnce()
	w.quiet()
}

// Sums near the end of what a number holds are refused, and nothing wraps around.
func TestBudgetsDoNotOverflow(t *testing.T) {
	t.Parallel()
	power := func(n uint) money.Amount {
		a, ok := money.FromBig(new(big.Int).Lsh(big.NewInt(1), n))
		if !ok {
			t.Fatal(n)
		}
		return a
	}
	top, _ := money.FromBig(new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)))
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	ask := func(amount money.Amount) (*pay.Payment, error) {
		entry := strings.Replace(buy{amount: 77}.entry(), `"77"`, `"`+amount.String()+`"`, 1)
		c := must(x402.DecodeHeader(`{"x402Version":2,"accepts":[` + entry + `]}`))
		r := w.request(buy{door: policy.DoorProxy, url: numbered(1), amount: 1})
		r.Challenge = c
		a, err := w.payer.Open(context.Background(), r)
		if err != nil {
			return nil, err
		}
		a.Finish(true)
		w.quiet()
		return a.Payment(), nil
	}
	if _, err := ask(top); err == nil {
		t.Error("2^256-1 was paid")
	}
	w.set(policy.Policy{DailyBudget: policy.CapOf(top), MaxPayment: policy.CapOf(top)})
	p := must(ask(power(128)))
	counter := pay.DailyCounter(w.key.ID, "USDC", w.chain.clock())
	w.store.SetCounter(counter, top) // as if very much had been spent
	if _, err := ask(money.New(1)); rule(err) != "daily-budget" {
		t.Errorf("got %v", err)
	}
	w.store.SetCounter(counter, p.Terms.Amount)
	w.set(policy.Policy{DailyBudget: policy.CapOf(power(129))})
	if _, err := ask(power(128)); err != nil {
		t.Error(err)
	}
	if _, err := ask(money.New(1)); rule(err) != "daily-budget" {
		t.Errorf("got %v", err)
	}
	// A price far beyond an int64, times the guard.
	huge := int(^uint(0) >> 1)
	w.set(policy.Policy{PriceGuard: &huge})
	w.settle(buy{door: policy.DoorProxy, url: numbered(1), amount: 1 << 62})
	if _, err := ask(power(124)); err != nil {
		t.Error(err)
	}
	if _, err := ask(power(126)); rule(err) != "price-guard" {
		t.Errorf("got %v", err)
	}
}

// Limits are on what is signed, whatever else a challenge or a repeat of it says.
func TestLimitsAreOnWhatIsSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(policy.Policy{MaxPayment: usdc(100), DailyBudget: usdc(150)})
	open := func(challenge, idem string) (*pay.Attempt, error) {
		t.Helper()
		c := must(x402.DecodeHeader(challenge))
		r := w.request(buy{door: policy.DoorProxy, url: numbered(1), amount: 1})
		r.Challenge, r.IdempotencyKey = c, idem
		a, err := w.payer.Open(context.Background(), r)
		if err == nil {
			defer w.quiet()
			defer a.Finish(false)
			if signed, _, err := a.Payload().Authorization(); err != nil || signed.Value != a.Payment().Terms.Amount {
				t.Fatalf("signed are %s, in the books %s", signed.Value, a.Payment().Terms.Amount)
			}
		}
		return a, err
	}
	v2 := func(amount uint64) string { return `{"x402Version":2,"accepts":[` + buy{amount: amount}.entry() + `]}` }
	// A price in the other version's field is no price.
	both := strings.Replace(v2(500), `"amount":"500"`, `"amount":"500","maxAmountRequired":"1"`, 1)
	if _, err := open(both, ""); rule(err) != "per-payment" {
		t.Errorf("got %v", err)
	}
	// The probe was cheap and the challenge that is paid is not.
	must(open(v2(60), "order"))
	if _, err := open(v2(101), "order 2"); rule(err) != "per-payment" {
		t.Errorf("got %v", err)
	}
	// A repeat sends what was signed, and is counted no more: neither the dearer challenge ...
	a, err := open(v2(5000), "order")
	if err != nil || a.Payment().Terms.Amount != money.New(60) {
		t.Fatalf("repeat: %v", err)
	}
	if got := w.counter(pay.DailyCounter(w.key.ID, "USDC", w.chain.clock())); got != "60" {
		t.Errorf("%s are spent", got)
	}
	// ... nor a policy that was made stricter meanwhile keeps it from its answer.
	w.set(policy.Policy{MaxPayment: usdc(1), Doors: []policy.Door{policy.DoorAPI}})
	if _, err = open(v2(60), "order"); err != nil {
		t.Errorf("repeat under a new policy: %v", err)
	}
	if _, err = open(v2(1), "order 3"); rule(err) != "doors" {
		t.Errorf("got %v", err)
	}
}

// Once a policy is set nothing is journaled that it does not allow, although callers come
// with what they knew of their key before.
func TestPolicySetWhilePaymentsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	stale := w.key
	w.set(policy.Policy{DailyBudget: usdc(40)})
	w.key = stale
	w.spends(buy{amount: 30}, "")
	w.spends(buy{amount: 11}, "daily-budget")
	if k, err := w.books.SetPolicy(context.Background(), w.key.ID, nil); err != nil || k.Policy != nil || k.PolicyRevision != 2 {
		t.Fatalf("%+v, %v", k, err)
	}
	w.spends(buy{amount: 11}, "")

	const callers, each = 8, 40
	var (
		all   sync.WaitGroup
		tight atomic.Bool
		n     atomic.Int64
	)
	for i := range callers {
		all.Go(func() {
			for j := range each {
				after := tight.Load()
				r := w.request(buy{door: policy.DoorProxy, url: fmt.Sprintf("https://api.example.com/%d/%d", i, j), amount: 5})
				a, err := w.payer.Open(context.Background(), r)
				if err == nil {
					a.Finish(true)
				}
				if n.Add(1); after && rule(err) != "per-payment" {
					t.Errorf("after the policy was set: %v", err)
				}
			}
		})
	}
	all.Go(func() {
		for n.Load() < callers*each/4 {
			time.Sleep(100 * time.Microsecond)
		}
		if _, err := w.books.SetPolicy(context.Background(), stale.ID, &policy.Policy{MaxPayment: usdc(4)}); err != nil {
			t.Error(err)
		}
		tight.Store(true)
	})
	all.Wait()
	w.quiet()
	if !tight.Load() || n.Load() != callers*each {
		t.Fatal("the test did not get there")
	}
	w.checkBooks()
}

// restless is a store that always has another policy than its keys.
type restless struct{ *memStore }

func (restless) Begin(context.Context, *pay.Begin) (pay.Begun, error) {
	return pay.Begun{}, pay.ErrPolicyChanged
}

func TestPolicyThatNeverRests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Store = restless{o.Store.(*memStore)} })
	if _, err := w.open(buy{door: policy.DoorProxy, url: numbered(1), amount: 1}); !errors.Is(err, pay.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
