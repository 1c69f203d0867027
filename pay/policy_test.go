package pay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Every rule refuses at every door where it is in force: the key's own policy at all of
// them, the defaults at those that dial themselves.
func TestEveryRuleAtEveryDoor(t *testing.T) {
	t.Parallel()
	two := 2
	const host = "api.example.com"
	part := func(b policy.Budget) map[string]policy.Budget { return map[string]policy.Budget{host: b, "crawl": b} }
	only := func(name string, b policy.Budget) map[string]policy.Budget {
		return map[string]policy.Budget{name: part(b)[name]}
	}
	payees := []x402.Address{testPayee} // host rules on REST need it
	for _, c := range []struct {
		rule  string
		pol   policy.Policy
		good  []buy // paid one after the other, at whichever door
		bad   buy
		words string // in the refusal's detail
	}{
		{
			"per-payment",
			policy.Policy{MaxPayment: usdc(100)},
			[]buy{{amount: 100}, {amount: 100}},
			buy{amount: 101},
			"0.000101 USDC is above the limit of 0.0001 USDC for one payment",
		},
		{
			"daily-budget",
			policy.Policy{DailyBudget: usdc(100)},
			[]buy{{amount: 60}, {amount: 40}},
			buy{amount: 1},
			"would pass the daily budget of 0.0001 USDC; 0.00 left until 00:00 UTC",
		},
		{
			"hourly-budget",
			policy.Policy{HourlyBudget: usdc(100)},
			[]buy{{amount: 60}, {amount: 40}},
			buy{amount: 1},
			"would pass the hourly budget of 0.0001 USDC; 0.00 left until ",
		},
		{
			"weekly-budget",
			policy.Policy{WeeklyBudget: usdc(100)},
			[]buy{{amount: 60}, {amount: 40}},
			buy{amount: 1},
			"would pass the weekly budget of 0.0001 USDC; 0.00 left until ",
		},
		{
			"host-hourly-budget",
			policy.Policy{Hosts: only(host, policy.Budget{HourlyBudget: usdc(100)}), AllowPayees: payees},
			[]buy{{amount: 99}, {amount: 101, url: "https://b.example.com/"}},
			buy{amount: 2},
			host,
		},
		{
			"task-weekly-budget",
			policy.Policy{Tasks: only("crawl", policy.Budget{WeeklyBudget: usdc(100)})},
			[]buy{{amount: 99, task: "crawl"}, {amount: 101}},
			buy{amount: 2, task: "crawl"},
			"crawl",
		},
		{
			"monthly-budget",
			policy.Policy{MonthlyBudget: usdc(100)},
			[]buy{{amount: 60}, {amount: 39}},
			buy{amount: 2},
			"would pass the monthly budget of 0.0001 USDC; 0.000001 left until 1 December, 00:00 UTC",
		},
		{"per-minute", policy.Policy{PerMinute: &two}, []buy{{amount: 1}, {amount: 1}}, buy{amount: 1}, "2 payments have begun in this minute"},
		{
			"hosts",
			policy.Policy{AllowHosts: []string{"*.example.com", "other.org:8443"}, AllowPayees: payees},
			[]buy{{amount: 1}, {amount: 1, url: "https://other.org:8443/x"}},
			buy{amount: 1, url: "https://evil-example.com/x"},
			"evil-example.com",
		},
		{
			"hosts",
			policy.Policy{AllowHosts: []string{"*.example.com"}, AllowPayees: payees},
			[]buy{{amount: 1}},
			buy{amount: 1, url: "http://[2001:db8::1]/x"},
			"[2001:db8::1]",
		},
		{
			"hosts",
			policy.Policy{DenyHosts: []string{"*.evil.org"}, AllowPayees: payees},
			[]buy{{amount: 1}, {amount: 1, url: "https://evil.org/x"}},
			buy{amount: 1, url: "https://a.EVIL.org.:443/x"},
			"a.evil.org is denied",
		},
		{
			"hosts",
			policy.Policy{AllowHosts: []string{"*.example.com"}, DenyHosts: []string{"bad.example.com"}, AllowPayees: payees},
			[]buy{{amount: 1}},
			buy{amount: 1, url: "https://bad.example.com/x"},
			"denied", // deny beats allow
		},
		{
			"payees",
			policy.Policy{AllowPayees: payees},
			[]buy{{amount: 1}},
			buy{amount: 1, payTo: otherSeller},
			otherSeller,
		},
		{
			"payees",
			policy.Policy{DenyPayees: []x402.Address{otherPayee}},
			[]buy{{amount: 1}},
			buy{amount: 1, payTo: otherSeller},
			"denied",
		},
		{
			"payees",
			policy.Policy{AllowPayees: []x402.Address{testPayee, otherPayee}, DenyPayees: []x402.Address{otherPayee}},
			[]buy{{amount: 1}},
			buy{amount: 1, payTo: otherSeller},
			"denied",
		},
		{
			"host-per-payment",
			policy.Policy{Hosts: only(host, policy.Budget{MaxPayment: usdc(100)}), AllowPayees: payees},
			[]buy{{amount: 100}, {amount: 101, url: "https://b.example.com/"}},
			buy{amount: 101},
			host,
		},
		{
			"host-daily-budget",
			policy.Policy{Hosts: only(host, policy.Budget{DailyBudget: usdc(100)}), AllowPayees: payees},
			[]buy{{amount: 99}, {amount: 101, url: "https://b.example.com/"}},
			buy{amount: 2},
			host,
		},
		{
			"host-monthly-budget",
			policy.Policy{Hosts: only(host, policy.Budget{MonthlyBudget: usdc(100)}), AllowPayees: payees},
			[]buy{{amount: 99}, {amount: 101, url: "https://b.example.com/"}},
			buy{amount: 2},
			host,
		},
		{
			"task-per-payment",
			policy.Policy{Tasks: only("crawl", policy.Budget{MaxPayment: usdc(100)})},
			[]buy{{amount: 100, task: "crawl"}, {amount: 101}},
			buy{amount: 101, task: "crawl"},
			"crawl",
		},
		{
			"task-daily-budget",
			policy.Policy{Tasks: only("crawl", policy.Budget{DailyBudget: usdc(100)})},
			[]buy{{amount: 99, task: "crawl"}, {amount: 101}},
			buy{amount: 2, task: "crawl"},
			"crawl",
		},
		{
			"task-monthly-budget",
			policy.Policy{Tasks: only("crawl", policy.Budget{MonthlyBudget: usdc(100)})},
			[]buy{{amount: 99, task: "crawl"}, {amount: 101, task: "other"}},
			buy{amount: 2, task: "crawl"},
			"crawl",
		},
		{
			"price-guard",
			policy.Policy{PriceGuard: &two},
			[]buy{{amount: 999}, {amount: 100}},
			buy{amount: 201},
			"0.000201 USDC is more than 2 times the 0.0001 USDC",
		},
	} {
		for _, door := range allDoors {
			for _, own := range []bool{true, false} {
				w := newWorld(t, func(o *pay.Options) {
					if !own {
						o.DefaultPolicy = c.pol
					}
				})
				if own {
					w.set(c.pol)
				}
				for i, b := range append(c.good, c.bad) {
					if b.door = door; b.url == "" {
						b.url = numbered(i)
					}
					if i < len(c.good) {
						w.settle(b)
						continue
					}
					_, err := w.open(b)
					want := c.rule
					if !own && door == policy.DoorAPI {
						want = ""
					}
					if got := rule(err); got != want || want != "" && !strings.Contains(err.Error(), c.words) {
						t.Errorf("%s at %s (own policy: %t): %v", c.rule, door, own, err)
					}
					if err != nil && (!refusedCleanly(w, len(c.good))) {
						t.Errorf("%s at %s: the refused payment left something", c.rule, door)
					}
				}
				w.checkBooks()
			}
		}
	}
}

// refusedCleanly: nothing but the payments made before is in the journal.
func refusedCleanly(w *world, payments int) bool {
	list, err := w.store.Payments(context.Background(), pay.PaymentQuery{KeyID: w.key.ID, Limit: 1000})
	return err == nil && len(list) == payments
}

func TestDoors(t *testing.T) {
	t.Parallel()
	const api, proxy, transport = policy.DoorAPI, policy.DoorProxy, policy.DoorTransport
	for _, c := range []struct {
		doors []policy.Door
		may   []policy.Door
	}{
		{nil, allDoors},
		{[]policy.Door{api}, []policy.Door{api}},
		{[]policy.Door{proxy}, []policy.Door{proxy, transport}},
		{[]policy.Door{transport}, []policy.Door{transport}},
		{[]policy.Door{api, transport}, []policy.Door{api, transport}},
		{[]policy.Door{api, proxy}, allDoors},
	} {
		w := newWorld(t, nil)
		w.set(policy.Policy{Doors: c.doors})
		may := []policy.Door{}
		for i, door := range allDoors {
			switch _, err := w.open(buy{door: door, url: numbered(i), amount: 1}); rule(err) {
			case "":
				may = append(may, door)
			case "doors":
			default:
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(may, c.may) {
			t.Errorf("doors %v: may pay through %v", c.doors, may)
		}
	}
}

// On REST the host is only claimed, so a rule for hosts does not stand without one for
// payees; with one it holds for the claim.
func TestHostRulesOnREST(t *testing.T) {
	t.Parallel()
	for name, pol := range map[string]policy.Policy{
		"allowed": {AllowHosts: []string{"api.example.com"}},
		"denied":  {DenyHosts: []string{"evil.org"}},
		"limited": {Hosts: map[string]policy.Budget{"api.example.com": {DailyBudget: usdc(10)}}},
		"payees that are denied are no payee rule": {DenyHosts: []string{"evil.org"}, DenyPayees: []x402.Address{otherPayee}},
	} {
		w := newWorld(t, nil)
		w.set(pol)
		_, err := w.open(buy{door: policy.DoorAPI, url: numbered(1), amount: 1})
		if rule(err) != "payees" || !strings.Contains(err.Error(), "allowed payees") || !strings.Contains(err.Error(), "requestUrl") {
			t.Errorf("%s: %v", name, err)
		}
		for _, door := range allDoors[1:] {
			if _, err := w.open(buy{door: door, url: numbered(2), amount: 1}); err != nil {
				t.Errorf("%s at %s: %v", name, door, err)
			}
		}
		pol.AllowPayees = []x402.Address{testPayee}
		w.set(pol)
		if _, err := w.open(buy{door: policy.DoorAPI, url: numbered(3), amount: 1}); err != nil {
			t.Errorf("%s with payees: %v", name, err)
		}
	}
	w := newWorld(t, nil)
	w.set(policy.Policy{AllowHosts: []string{"api.example.com"}, AllowPayees: []x402.Address{testPayee}})
	if _, err := w.open(buy{door: policy.DoorAPI, amount: 1}); rule(err) != "hosts" || !strings.Contains(err.Error(), "requestUrl is missing") {
		t.Errorf("without a URL: %v", err)
	}
}

func TestPolicyOf(t *testing.T) {
	t.Parallel()
	three, five, zero := 3, 5, 0
	def := policy.Policy{
		MaxPayment: usdc(1), DailyBudget: usdc(2), MonthlyBudget: usdc(3), PerMinute: &three, PriceGuard: &three,
		Doors: []policy.Door{policy.DoorProxy}, AllowHosts: []string{"def.example"}, DenyHosts: []string{"bad.example"},
		AllowPayees: []x402.Address{testPayee}, DenyPayees: []x402.Address{x402.EVMAddress([20]byte{1})},
		Hosts: map[string]policy.Budget{"a.example": {MaxPayment: usdc(1), DailyBudget: usdc(1)}, "b.example": {MaxPayment: usdc(2)}},
		Tasks: map[string]policy.Budget{"*": {DailyBudget: usdc(4)}},
	}
	own := policy.Policy{
		MaxPayment: usdc(10), DailyBudget: policy.NoCap(), PerMinute: &zero, PriceGuard: &five,
		Doors: []policy.Door{policy.DoorAPI, policy.DoorProxy}, DenyHosts: []string{"own.example"}, DenyPayees: []x402.Address{x402.EVMAddress([20]byte{2})},
		Hosts: map[string]policy.Budget{"a.example": {DailyBudget: usdc(7)}}, Tasks: map[string]policy.Budget{"crawl": {DailyBudget: usdc(5)}},
	}
	both := policy.Policy{
		MaxPayment: usdc(10), DailyBudget: policy.NoCap(), MonthlyBudget: usdc(3), PerMinute: &zero, PriceGuard: &five,
		Doors: own.Doors, AllowHosts: def.AllowHosts, DenyHosts: []string{"own.example", "bad.example"},
		AllowPayees: def.AllowPayees, DenyPayees: []x402.Address{x402.EVMAddress([20]byte{2}), x402.EVMAddress([20]byte{1})},
		Hosts: map[string]policy.Budget{"a.example": {DailyBudget: usdc(7)}, "b.example": {MaxPayment: usdc(2)}},
		Tasks: map[string]policy.Budget{"*": {DailyBudget: usdc(4)}, "crawl": {DailyBudget: usdc(5)}},
	}
	w := newWorld(t, func(o *pay.Options) { o.DefaultPolicy = def })
	before := jsonOf(def) + jsonOf(own)
	for name, c := range map[string]struct {
		own  *policy.Policy
		door policy.Door
		want policy.Policy
	}{
		"nothing of its own, REST":      {nil, policy.DoorAPI, policy.Policy{}},
		"nothing of its own, proxy":     {nil, policy.DoorProxy, def},
		"nothing of its own, transport": {nil, policy.DoorTransport, def},
		"its own, REST":                 {&own, policy.DoorAPI, own},
		"its own, proxy":                {&own, policy.DoorProxy, both},
		"its own, transport":            {&own, policy.DoorTransport, both},
		"an empty one":                  {&policy.Policy{}, policy.DoorProxy, def},
	} {
		if got := w.payer.PolicyOf(pay.Key{Policy: c.own}, c.door); jsonOf(got) != jsonOf(c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, jsonOf(got), jsonOf(c.want))
		}
	}
	for _, door := range allDoors { // the operator's keys have the defaults at every door
		for _, c := range []struct {
			own  *policy.Policy
			want policy.Policy
		}{{nil, def}, {&own, both}, {&policy.Policy{}, def}} {
			if got := w.payer.PolicyOf(pay.Key{Operator: true, Policy: c.own}, door); jsonOf(got) != jsonOf(c.want) {
				t.Errorf("an operator's key, %s:\n got %s\nwant %s", door, jsonOf(got), jsonOf(c.want))
			}
		}
	}
	allow := policy.Policy{AllowHosts: []string{"mine.example"}, AllowPayees: []x402.Address{otherPayee}}
	if got := w.payer.PolicyOf(pay.Key{Policy: &allow}, policy.DoorProxy); got.AllowHosts[0] != "mine.example" || len(got.AllowHosts) != 1 ||
		len(got.AllowPayees) != 1 || got.AllowPayees[0] != otherPayee {
		t.Errorf("own allowances became %v, %v", got.AllowHosts, got.AllowPayees)
	}
	if jsonOf(def)+jsonOf(own) != before {
		t.Error("a policy was changed")
	}
}

func jsonOf(v any) string { return string(must(json.Marshal(v))) }

// What a rule without counting refuses does not hide what it allows.
func TestChoosesWhatPolicyAllows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pol         policy.Policy
		first, then buy
	}{
		"cheaper":      {policy.Policy{MaxPayment: usdc(10)}, buy{amount: 11}, buy{amount: 10}},
		"for the host": {policy.Policy{Hosts: map[string]policy.Budget{"*.example.com": {MaxPayment: usdc(10)}}}, buy{amount: 11}, buy{amount: 10}},
		"for the task": {policy.Policy{Tasks: map[string]policy.Budget{"*": {MaxPayment: usdc(10)}}}, buy{amount: 11}, buy{amount: 10}},
		"for a task of its own": {
			policy.Policy{Tasks: map[string]policy.Budget{"crawl": {MaxPayment: usdc(10)}}}, buy{amount: 11, task: "crawl"}, buy{amount: 10},
		},
		"another payee": {policy.Policy{AllowPayees: []x402.Address{testPayee}}, buy{amount: 1, payTo: otherSeller}, buy{amount: 2}},
		"a payee that is not denied": {
			policy.Policy{DenyPayees: []x402.Address{testPayee}}, buy{amount: 1}, buy{amount: 2, payTo: otherSeller},
		},
	} {
		w := newWorld(t, nil)
		w.set(c.pol)
		c.first.door, c.first.url = policy.DoorProxy, numbered(1)
		p, err := w.open(c.first, c.then)
		if err != nil || p.Terms.Amount != money.New(c.then.amount) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

// A letter beyond ASCII whose lower case is in it does not make another host the listed one. Where purser dials, rules for
// hosts refuse a URL without one.
func TestHostsThatAreNotTheListedOne(t *testing.T) {
	t.Parallel()
	listed := policy.Policy{AllowHosts: []string{"api.example.com", "k.example"}}
	for url, pol := range map[string]policy.Policy{
		"https://ap\u0130.example.com/x": listed, "https://\u212a.example/x": listed,
		"http:http://bad.example/x": {DenyHosts: []string{"bad.example"}},
	} {
		w := newWorld(t, nil)
		w.set(pol)
		if _, err := w.open(buy{door: policy.DoorProxy, url: url, amount: 1}); rule(err) != "hosts" {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// An endpoint is the same however its path is spelt.
func TestPriceGuardSpellings(t *testing.T) {
	t.Parallel()
	two := 2
	w := newWorld(t, nil)
	w.set(policy.Policy{PriceGuard: &two})
	w.settle(buy{door: policy.DoorProxy, url: "https://api.example.com/v1/data", amount: 100})
	for _, path := range []string{"/v1/%64ata", "//v1/data", "/v1/./data", "/v1/x/../data"} {
		if _, err := w.open(buy{door: policy.DoorProxy, url: "https://api.example.com" + path, amount: 1_000}); rule(err) != "price-guard" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

const otherSeller = "0x2222222222222222222222222222222222222222"

var (
	testPayee  = must(x402.ParseAddress(testSeller))
	otherPayee = must(x402.ParseAddress(otherSeller))
	allDoors   = []policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport}
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// buy is something to pay for. What is not set is of no matter.
type buy struct {
	door    policy.Door
	url     string
	method  string
	task    string
	amount  uint64
	payTo   string
	timeout int
}

// entry is a requirement of a challenge.
func (b buy) entry() string {
	if b.payTo == "" {
		b.payTo = testSeller
	}
	if b.timeout == 0 {
		b.timeout = 60
	}
	return fmt.Sprintf(`{"scheme":"exact","network":"eip155:8453","amount":"%d","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
		"payTo":%q,"maxTimeoutSeconds":%d,"extra":{"name":"USD Coin","version":"2"}}`, b.amount, b.payTo, b.timeout)
}

// request asks for it through its door; accepts are further entries of the challenge.
func (w *world) request(b buy, accepts ...buy) pay.Request {
	entries := []string{b.entry()}
	for _, more := range accepts {
		entries = append(entries, more.entry())
	}
	c := must(x402.DecodeHeader(`{"x402Version":2,"accepts":[` + strings.Join(entries, ",") + `]}`))
	r := pay.Request{Key: w.key, Door: b.door, Task: b.task, Settlement: pay.SettleSeller, Challenge: c, URL: b.url}
	if b.door != policy.DoorAPI {
		if b.method == "" {
			b.method = "GET"
		}
		r.HTTP = &pay.HTTPRequest{Method: b.method, URL: b.url}
	}
	return r
}

// open begins a payment and leaves its caller answered, but the outcome open.
func (w *world) open(b buy, accepts ...buy) (*pay.Payment, error) {
	a, err := w.payer.Open(context.Background(), w.request(b, accepts...))
	if err != nil {
		return nil, err
	}
	a.Finish(true)
	w.quiet()
	return a.Payment(), nil
}

// settle begins a payment, which the seller settles.
func (w *world) settle(b buy) *pay.Payment {
	w.t.Helper()
	a, err := w.payer.Open(context.Background(), w.request(b))
	if err != nil {
		w.t.Fatalf("%+v: %v", b, err)
	}
	tx := w.sellerMoves(a.Payload())
	a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: tx})
	a.Finish(true)
	w.quiet()
	return w.payment(a.Payment().ID)
}

// set gives the test's key a policy.
func (w *world) set(pol policy.Policy) {
	w.t.Helper()
	var err error
	if w.key, err = w.books.SetPolicy(context.Background(), w.key.ID, &pol); err != nil {
		w.t.Fatal(err)
	}
}

// rule is the rule that refused, "" for none.
func rule(err error) string {
	var refused *pay.PolicyError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		if refused.Detail == "" {
			return "no detail: " + refused.Rule
		}
		return refused.Rule
	}
	return err.Error()
}

// numbered are URLs of one endpoint that are not the same request.
func numbered(n int) string { return fmt.Sprintf("https://api.example.com/v1/data?n=%d", n) }
