package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/proxy"
)

// A budget that is set during its day or month counts from the beginning: what was spent before
// it was set is spent. Setting one is what an operator does when an agent spends too much.
func TestBudgetThatIsSetLater(t *testing.T) {
	s, socket := bookSite(t)
	seller := newSeller(t)
	n := 0
	for _, limit := range []string{"--daily-budget 4", "--monthly-budget 4"} {
		key := newKey(t, s.url())
		id := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys[n].ID
		n++
		mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(5_000_000, "https://api.example.com/1"))
		text := strings.Join(strings.Fields(told(t, socket, append([]string{"limits", id}, strings.Fields(limit)...)...)), " ")
		if !strings.Contains(text, " spent today 5 ") || limit == "--daily-budget 4" && !strings.Contains(text, " left today 0 at the proxy ") {
			t.Errorf("%s: %s", limit, text)
		}
		status, answer := asks(t, newClient(t), s, key, 2_500_000, "2", "payer")
		rule, _, _ := strings.Cut(strings.TrimPrefix(limit, "--"), " ")
		refused(t, limit, rule, status, answer)
		told(t, socket, "limits", id, "--daily-budget", "7.5", "--monthly-budget", "7.5") // just what is left
		mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(2_500_000, "https://api.example.com/2"))
		if text := strings.Join(strings.Fields(told(t, socket, "limits", id)), " "); !strings.Contains(text, " left today 0 at the proxy ") {
			t.Errorf("%s: %s", limit, text)
		}
	}
	// Those of hosts and tasks likewise, by any pattern: 0.01 USDC was spent on each.
	at, err := url.Parse(seller.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{
		"--host " + at.Host + "=daily:0.015", "--host " + at.Hostname() + "=daily:0.015", "--host " + at.Hostname() + "=monthly:0.015",
		"--task crawl=daily:0.015", "--task crawl=monthly:0.015", "--task *=daily:0.015", "--task *=monthly:0.015",
	} {
		key := newKey(t, s.url())
		agent := s.through(t, url.UserPassword(key, "crawl"))
		id := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys[n].ID
		n++
		if status, header, _ := get(t, agent, seller.URL+"/1"); status != 200 {
			t.Fatalf("%s: %d %v", limit, status, header)
		}
		told(t, socket, append([]string{"limits", id}, strings.Fields(limit)...)...)
		status, header, _ := get(t, agent, seller.URL+"/2")
		if declined := header.Get(proxy.HeaderDeclined); status != http.StatusPaymentRequired || !strings.HasSuffix(declined, "ly-budget") {
			t.Errorf("%s: %d, declined %q", limit, status, declined)
		}
		told(t, socket, append([]string{"limits", id}, strings.Fields(strings.Replace(limit, "0.015", "0.02", 1))...)...)
		if status, header, _ := get(t, agent, seller.URL+fmt.Sprintf("/%d", n)); status != 200 {
			t.Errorf("%s, and twice as much: %d %v", limit, status, header)
		}
	}
}
