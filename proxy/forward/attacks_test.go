package forward

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// Each of these has cost x402 payers money. Its test shows that it does not happen here.
//
//	 1 a lost response led to a second signature      TestRepeatAfterLostAnswer, TestRepeatAtOnce
//	 2 a timeout was taken for a failure              TestAttackTimeoutIsNoFailure, TestSlowSeller, TestRepeatAfterLostAnswer
//	 3 an aborting upstream got several payments      TestAbortedAttemptsHaveOneSignature, TestPaidRequestIsSentOnce, TestConnectionsThatVanish
//	 4 limits multiplied, or bypassed by an asset     TestAttackAnotherDoorAnotherLimit, TestDeclines (other asset); on restart: package boltstore
//	 5 the cap was checked on an estimate             TestAttackCapIsOnWhatIsSigned
//	 6 a cheap probe, a dear payment                  TestAttackDearerSecondChallenge, TestChallengedAgain
//	 7 wrong asset, domain or network                 TestDeclines
//	 8 endless 402s, price jumps                      TestAttackEndlessChallenges; the price guard: package pay
//	 9 broad allowances                               TestDeclines (permit2, upto, batch)
//	10 an agent that was talked into it               TestAttackClientCannotRaiseItsLimits, TestDefaultLimits
//	11 a paying tool that reaches the metadata        TestJudge, TestDialer
//	12 a name that leads elsewhere after the check    TestPlainHTTPElsewhere, TestDialer
//	13 headers that followed a redirect               TestAttackRedirect
//	14 paid content in a shared cache                 TestAttackSharedCache, TestPays
//	15 a captured payload                             TestAttackCapturedPayload, TestPlainHTTP
//	16 one payload in two sends at a time             TestAttackParallelSends
//	17 headers that broke the delivery                TestOddHeaders, TestRepeatAfterLostAnswer
//	18 personal data in logs                          TestAttackLogs
//	19 a second interface without the limits          TestAttackAnotherDoorAnotherLimit
//	20 others' code between decision and signature    there is none

// Row 2: until the payment is known not to have been made, its money is spent.
func TestAttackTimeoutIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) {
		s.pay.SendTimeout = 100 * time.Millisecond
		s.pay.DefaultPolicy = policy.Policy{DailyBudget: policy.CapOf(money.New(15_000))}
	})
	s := proxytest.NewSeller(t)
	s.Paid = func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }
	a := proxytest.InTime(t, false, func() proxytest.Answer { return w.get(s.URL + "/a") })
	if a.StatusCode != http.StatusGatewayTimeout || a.Problem(t).Payment.State != pay.Open {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	w.get(s.URL+"/b", "Prefer", "wait=60").Declined(t, "daily-budget", true)
	if _, paid, distinct := s.Counts(); paid != 1 || distinct != 1 {
		t.Errorf("%d paid requests, %d payments", paid, distinct)
	}
}

// Row 5: what is compared with the limit is what is signed, whatever else a challenge says.
func TestAttackCapIsOnWhatIsSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy = policy.Policy{MaxPayment: policy.CapOf(money.New(10_000))} })
	requirement := func(amount, description string) any {
		var c struct{ Accepts []map[string]any }
		_ = json.Unmarshal(proxytest.V1Challenge(amount, "http://x/", ""), &c)
		c.Accepts[0]["description"], c.Accepts[0]["amount"], c.Accepts[0]["price"] = description, "1", "$0.01"
		return c.Accepts[0]
	}
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			accepts := []any{requirement("10001", "only 1 unit")}
			if r.URL.Path == "/two" {
				accepts = append(accepts, requirement("10000", ""))
			}
			b, _ := json.Marshal(map[string]any{"x402Version": 1, "accepts": accepts})
			rw.WriteHeader(402)
			_, _ = rw.Write(b)
		}
		s.V1 = true
	})
	w.get(s.URL+"/one").Declined(t, "per-payment", true)
	a := w.get(s.URL + "/two")
	a.Paid(t)
	p, err := x402.DecodePayload(s.Bought[0].Header.Get(x402.HeaderV1Payment))
	if err != nil {
		t.Fatal(err)
	}
	if auth, _, err := p.Authorization(); err != nil || auth.Value != money.New(10_000) || a.Header.Get(proxy.HeaderAmount) != "10000" {
		t.Errorf("signed %v %v, told %s", auth.Value, err, a.Header.Get(proxy.HeaderAmount))
	}
}

// Row 6: each 402 is a decision of its own. A payment allowed for one price is not signed again for
// another.
func TestAttackDearerSecondChallenge(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	price := 10_000
	s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
		price *= 10
		s.WriteChallenge(rw, r, fmt.Sprint(price), "the price has changed")
	}
	for range 4 {
		w.get(s.URL+"/x").Declined(t, proxy.DeclinedOpen, false)
	}
	for _, a := range s.Signed() {
		if a.Value != money.New(10_000) {
			t.Errorf("signed %s", a.Value)
		}
	}
	s.Expect(4, 4, 1)
}

// Row 8: a seller that always asks for more gets one payment for a request, and no more
// than a few at a time in all.
func TestAttackEndlessChallenges(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, func(s *setup) { s.forward.MaxFailures = -1 }), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) { s.WriteChallenge(rw, r, s.Price, "") }
	for range 3 {
		w.get(s.URL+"/same").Declined(t, proxy.DeclinedOpen, false)
	}
	s.Expect(3, 3, 1)
	for i := range pay.MaxUnansweredPerHost + 1 {
		a := w.get(fmt.Sprintf("%s/%d", s.URL, i))
		if a.Header.Get(proxy.HeaderDeclined) == "unanswered" {
			break
		}
		a.Declined(t, proxy.DeclinedOpen, false)
		w.Closed(a.Header.Get(proxy.HeaderPayment))
	}
	if _, _, distinct := s.Counts(); distinct != pay.MaxUnansweredPerHost {
		t.Errorf("%d payments", distinct)
	}
}

// Row 10: nothing that an agent says raises what it may spend, least of all by imitating us.
func TestAttackClientCannotRaiseItsLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.Price = "1000001" })
	for _, header := range [][]string{
		{"Purser-Max-Payment", "99000000"},
		{"Purser-Payment", "x"},
		{"Purser-Declined", ""},
		{"X-Payment-Max", "99"},
		{"Idempotency-Key", "k"},
		{"X-Api-Key", "other"},
	} {
		w.get(s.URL+"/x", header...).Declined(t, "per-payment", true)
	}
	for _, r := range s.Unpaid {
		for name := range r.Header {
			if strings.HasPrefix(name, "Purser-") {
				t.Errorf("the seller got %s", name)
			}
		}
	}
	if n := len(w.Payments()); n != 0 {
		t.Errorf("%d payments", n)
	}
}

// Row 13: the target of a redirect gets nothing of the payment, and purser does not ask it.
func TestAttackRedirect(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var mu sync.Mutex
		var seen []http.Header
		target := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r.Header.Clone())
		}))
		w, s := newWorld(t), proxytest.NewSeller(t)
		s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			s.Receipt(rw, n)
			rw.Header().Set("Location", target.URL+"/elsewhere")
			rw.WriteHeader(status)
		}
		a := w.get(s.URL + "/x")
		if a.StatusCode != status || a.Header.Get(proxy.HeaderPayment) == "" || len(seen) != 0 {
			t.Errorf("%d %v, the target was asked %d times", a.StatusCode, a.Header, len(seen))
		}
		follow := w.agent()
		follow.CheckRedirect = nil
		b := w.do(follow, proxytest.Request(t, "GET", s.URL+"/y", nil, "Purser-Again", "new")) // as a client does by itself
		if b.StatusCode != 200 || len(seen) != 1 {
			t.Fatalf("%d, the target was asked %d times", b.StatusCode, len(seen))
		}
		for _, name := range []string{x402.HeaderSignature, x402.HeaderV1Payment, "Proxy-Authorization", "Authorization", proxy.HeaderPayment} {
			if v := seen[0].Values(name); len(v) > 0 {
				t.Errorf("the target got %s: %q", name, v)
			}
		}
		s.Expect(2, 2, 2)
		target.Close()
	}
}

// Row 14: paid answers are for who paid.
func TestAttackSharedCache(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		s.Receipt(rw, n)
		for _, name := range []string{"Cache-Control", "CDN-Cache-Control", "Surrogate-Control", "Example-CDN-Cache-Control"} {
			rw.Header().Set(name, "public, max-age=3600")
		}
		rw.Header().Set("Etag", `"1"`)
		rw.Header().Set("Vary", "Accept")
	}
	a := w.get(s.URL + "/x")
	a.Paid(t)
	for name, values := range a.Header {
		switch {
		case name == "Cache-Control":
			if len(values) != 1 || values[0] != "private, max-age=3600" {
				t.Errorf("%s: %q", name, values)
			}
		case strings.HasSuffix(name, "-Control"):
			t.Errorf("%s: %q", name, values)
		}
	}
	if a.Header.Get("Etag") != `"1"` || a.Header.Get("Vary") != "Accept" {
		t.Errorf("%v", a.Header)
	}
}

// Row 15: a payload is worth something for as long as the seller asked for, at most, and
// only to the payee and for the amount.
func TestAttackCapturedPayload(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	before := time.Now()
	w.get(s.URL + "/x").Paid(t)
	a := s.Signed()[0]
	if until := time.Unix(int64(a.ValidBefore), 0); until.After(time.Now().Add(61*time.Second)) || until.Before(before.Add(30*time.Second)) {
		t.Errorf("valid until %s", until)
	}
	if !strings.EqualFold(a.To.String(), proxytest.SellerAddress) || a.Value != money.New(10_000) {
		t.Errorf("%+v", a)
	}
}

// Row 16: at most one send of a payload is under way at any time.
func TestAttackParallelSends(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	var mu sync.Mutex
	under, most := make(map[string]int), 0
	count := func(r *http.Request, n int) {
		mu.Lock()
		defer mu.Unlock()
		payload := r.Header.Get(x402.HeaderSignature)
		under[payload] += n
		most = max(most, under[payload])
	}
	arrived := make(chan struct{}, 100)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		count(r, 1)
		arrived <- struct{}{}
		if n == 1 { // long enough for all to have come
			deadline := time.Now().Add(10 * time.Second)
			for u, _, _ := s.Counts(); u < 8 && time.Now().Before(deadline); u, _, _ = s.Counts() {
				time.Sleep(time.Millisecond)
			}
		}
		count(r, -1)
		s.Receipt(rw, 1)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a, err := proxytest.Do(w.agent(), proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("b"), "Idempotency-Key", "one")); err != nil || a.StatusCode != 200 {
				t.Errorf("%v %v", a, err)
			}
		})
	}
	wg.Wait()
	if _, paid, distinct := s.Counts(); most != 1 || paid != 8 || distinct != 1 || len(arrived) != 8 {
		t.Errorf("%d sends at a time, %d sends of %d payments", most, paid, distinct)
	}
}

// Row 18: logs name hosts and payments, nothing of what was asked for or paid with.
func TestAttackLogs(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		switch n {
		case 1:
			proxytest.HangUp(rw)
		case 2:
			s.WriteChallenge(rw, r, "1", "no")
		default:
			s.Receipt(rw, n)
		}
	}
	const private = "patient-4711"
	for range 3 {
		w.do(w.agent(), proxytest.Request(t, "POST", s.URL+"/"+private+"?name="+private, strings.NewReader(private), "X-Name", private))
	}
	w.get("http://127.0.0.1:1/" + private + "?" + private)
	s.Expect(3, 3, 1)
	logs := w.Logs.String()
	for _, secret := range []string{private, w.Secret, s.Bought[0].Header.Get(x402.HeaderSignature)} {
		if strings.Contains(logs, secret) {
			t.Errorf("logged: %.40s", secret)
		}
	}
	if !strings.Contains(logs, "402 after the payment was sent") {
		t.Errorf("nothing was logged: %s", logs)
	}
}
