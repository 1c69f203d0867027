package mpp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/mppshop"
)

// outcomes says what each outcome leaves: debits, and whether there is an answer.
var outcomes = map[mppshop.Outcome]struct {
	debits   int
	answered bool
}{
	mppshop.Delivered: {1, true}, mppshop.Taken: {1, false}, mppshop.Refused: {0, false}, mppshop.Declined: {0, false}, mppshop.Given: {0, true},
}

// However the seller behaves, purser sends one credential for a purchase, and the books agree with the chain.
func TestPurserMeetsPlays(t *testing.T) {
	t.Parallel()
	shop, address := openShop(t, mppshop.Options{})
	a := newAgent(t, env.sharedPurser(t))
	paid := 0
	t.Run("plays", func(t *testing.T) {
		for _, p := range mppshop.Plays() {
			if strings.HasPrefix(p.Name, "redirect") {
				continue // after which purser pays nothing for a while: see TestRedirects
			}
			paid += outcomes[p.Outcome].debits
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				got := a.insist(t, played(t, address, p.Name))
				want := outcomes[p.Outcome]
				settled(t, shop, p)
				n := shop.Count("/" + p.Name)
				switch {
				case n.Settlements != want.debits || (got.Status == http.StatusOK) != want.answered:
					t.Errorf("%+v, %+v", got, n)
				case n.Distinct > 1, n.Answers > 1, n.Caught > 0, len(n.Refusals) > 0, p.Outcome == mppshop.Declined && n.Credentials > 0:
					t.Errorf("%+v, %+v", got, n)
				case n.Credentials > 0 && got.Status != http.StatusOK && strings.Contains(fmt.Sprint(got.Header), "Payment id="):
					t.Errorf("it can be paid again: %+v", got)
				}
			})
		}
	})
	if n := env.debits(t, a.wallet); n != paid {
		t.Errorf("%d debits, want %d", n, paid)
	}
	a.requireBooks(t, paid)
}

// insist makes a request through purser. It makes the same one again as often as purser says so, as an agent does.
func (a *agent) insist(t testing.TB, target string) (got process.Answer) {
	t.Helper()
	for range 4 {
		got = a.ask(t, target)
		open := got.Header.Get("Purser-Error") == "payment-open" || got.Header.Get("Purser-Declined") == "payment-open"
		if !open && got.Status != http.StatusInternalServerError {
			return got
		}
	}
	return got
}

// settled waits for the settlement of a late play.
func settled(t testing.TB, shop *mppshop.Shop, p mppshop.Play) {
	t.Helper()
	if !strings.HasPrefix(p.Name, "late") {
		return
	}
	process.Eventually(t, 20*time.Second, func() string {
		if shop.Count("/"+p.Name).Settlements == 0 {
			return "no settlement"
		}
		return ""
	})
}

// ask makes a request through purser.
func (a *agent) ask(t testing.TB, target string, header ...string) process.Answer {
	t.Helper()
	got, err := process.Ask(t.Context(), a.proxied(), "GET", target, "", header...)
	if err != nil {
		t.Logf("%v", err)
	}
	return got
}

// A request with its own Authorization is paid for where there is another place for the credential, and where there is
// none, it is not.
func TestOwnAuthorization(t *testing.T) {
	t.Parallel()
	shop, address := openShop(t, mppshop.Options{})
	own := []string{"Authorization", "Bearer of-the-client"}
	for name, want := range map[string]string{"other": "", "other-case": "", "both": "", "weather": "authorization-in-use", "line": "authorization-in-use"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, env.sharedPurser(t))
			got := a.ask(t, named(t, address)+"/"+name, own...)
			if reason := got.Header.Get("Purser-Declined"); reason != want || (got.Status == http.StatusOK) != (want == "") {
				t.Errorf("%+v", got)
			}
			if want == "" && !strings.Contains(got.Body, own[1]) {
				t.Errorf("%+v", got)
			}
			if n := shop.Count("/" + name); want != "" && n.Credentials > 0 || n.Distinct > 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// The body comes a second time as it came the first time, byte for byte.
func TestBodies(t *testing.T) {
	t.Parallel()
	_, address := openShop(t, mppshop.Options{})
	for name, body := range map[string]string{"digest": "a\x00b\xff\r\n", "weather": strings.Repeat("0123456789abcdef", 64<<10), "denies/2": "{ }"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, env.sharedPurser(t))
			got, err := process.Ask(t.Context(), a.proxied(), "POST", named(t, address)+"/"+name, body)
			if err != nil || got.Status != http.StatusOK || got.Body != body {
				t.Errorf("%d bytes, %d, %v, %v", len(got.Body), got.Status, got.Header, err)
			}
			if n := env.debits(t, a.wallet); n != 1 {
				t.Errorf("%d debits", n)
			}
		})
	}
}

// A seller learns from purser what can be paid.
func TestPreference(t *testing.T) {
	t.Parallel()
	shop, address := openShop(t, mppshop.Options{})
	a := newAgent(t, env.sharedPurser(t))
	if got := a.ask(t, named(t, address)+"/gate"); got.Status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	if n := shop.Count(""); n.Settlements != 1 {
		t.Errorf("%+v", n)
	}
}

// The credential goes to the origin that asked for it, and nowhere else.
func TestRedirects(t *testing.T) {
	t.Parallel()
	shop, address := openShop(t, mppshop.Options{})
	for _, name := range []string{"redirect", "redirect-other"} {
		a := newAgent(t, env.sharedPurser(t))
		c := process.Client(&url.URL{Scheme: "http", Host: a.Host(), User: url.UserPassword(a.key, "agent")}, nil) // which follows
		got, err := process.Ask(t.Context(), c, "GET", named(t, address)+"/"+name, "")
		if n := shop.Count("/caught"); n.Caught > 0 {
			t.Errorf("%+v: %+v, %v", n, got, err)
		}
		if n := env.debits(t, a.wallet); n != 0 {
			t.Errorf("%d debits", n)
		}
	}
}
