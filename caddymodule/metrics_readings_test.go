package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// richChain is a chain on which every wallet has 5 USDC, and asks are counted.
type richChain struct {
	pay.Chain
	asked atomic.Int64
	fails bool
}

func (c *richChain) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	c.asked.Add(1)
	if c.fails {
		return money.Amount{}, errors.New("no answer")
	}
	return money.New(5_000_000), nil
}

// The readings in the background count the owners of quotas, and the wallets that are in use.
func TestReadings(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	s := newSite(t)
	s.app = "plan free {\n\t\t\tpayments 5\n\t\t}"
	mustLoad(t, s.caddyfile())
	spender, idle := newKey(t, s.url()), newKey(t, s.url())
	if idle == spender {
		t.Fatal("one key")
	}
	for i := range 4 {
		mustCall(t, 200, "POST", s.url()+"/v1/pay", spender, payBody(2_500, fmt.Sprint("https://api.example.com/", i)))
	}
	tenant := serving()
	q, err := tenant.readings.ReadQuota(t.Context(), time.Now())
	if err != nil || q.Used != 0.8 || q.Near != 1 || q.Exhausted != 0 || q.Counted != 2 {
		t.Errorf("%+v, %v", q, err)
	}
	mustCall(t, 200, "POST", s.url()+"/v1/pay", spender, payBody(2_500, "https://api.example.com/last"))
	if q, err := tenant.readings.ReadQuota(t.Context(), time.Now()); err != nil || q.Used != 1 || q.Near != 0 || q.Exhausted != 1 {
		t.Errorf("%+v, %v", q, err)
	}
	if q, err := tenant.readings.ReadQuota(t.Context(), time.Now().AddDate(0, 2, 0)); err != nil || q.Used != 0 {
		t.Errorf("in another month: %+v, %v", q, err)
	}

	chain := &richChain{}
	source := tenant.readings.Source
	source.Chain = chain
	readings := metrics.NewReadings(source)
	list, err := readings.ReadWallets(t.Context(), time.Now(), x402.DefaultNetworks())
	if err != nil || len(list) != 1 || list[0].Count != 1 || list[0].Network != "base" || list[0].Currency != "USDC" ||
		list[0].Total.String() != "5000000" || list[0].Lowest.String() != "5000000" || chain.asked.Load() != 1 {
		t.Errorf("%+v, %v, asked %d times", list, err, chain.asked.Load())
	}
	if list, err := readings.ReadWallets(t.Context(), time.Now().AddDate(0, 0, 31), x402.DefaultNetworks()); err != nil || list[0].Count != 0 {
		t.Errorf("long after: %+v, %v", list, err)
	}
	chain.fails = true
	if list, err := readings.ReadWallets(t.Context(), time.Now(), x402.DefaultNetworks()); err == nil {
		t.Errorf("%+v", list)
	}
}

// No service is asked before the first scrape; after it, failures show.
func TestFacilitatorIsProbedForScrapes(t *testing.T) {
	var probes atomic.Int64
	var down atomic.Bool
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		probes.Add(1)
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"kinds":[]}`)
	}))
	defer f.Close()
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	s := newSite(t)
	port := freePort(t)
	down.Store(true)
	mustLoad(t, s.caddyfile()+fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\tmetrics /metrics\n}\n", port))
	if n := probes.Load(); n != 0 {
		t.Errorf("%d probes before a scrape", n)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	if up, ok := scrape(t, url, "purser_facilitator_up"); !ok || up != 1 {
		t.Errorf("up %g, %t: nothing was known against it", up, ok)
	}
	eventually(t, "the probe fails", func() bool {
		up, ok := scrape(t, url, "purser_facilitator_up")
		return ok && up == 0
	})
	if n := probes.Load(); n != 1 {
		t.Errorf("%d probes in 10 s", n)
	}
}

// A reload neither takes an alert back for a scrape, nor makes what it looks at go away for one.
func TestReadingsSurviveReload(t *testing.T) {
	f := newStandIn(t)
	rpc := httptest.NewServer(http.NotFoundHandler())
	defer rpc.Close()
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	t.Setenv("PURSER_RPC_URL", rpc.URL)
	s := newSite(t)
	port := freePort(t)
	text := s.caddyfile() + fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\tmetrics /metrics\n}\n", port)
	f.Close()
	mustLoad(t, text)
	newKey(t, s.url())
	url := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	gauges := []string{"purser_facilitator_up", "purser_rpc_up", "purser_quota_used_ratio"}
	eventually(t, "it is known that both are down", func() bool {
		for _, name := range gauges {
			if v, ok := scrape(t, url, name); !ok || v != 0 {
				return false
			}
		}
		return true
	})
	for range 3 {
		mustLoad(t, text)
		_, _, all := get(t, http.DefaultClient, url) // the first after the reload
		for _, name := range gauges {
			if !strings.Contains(all, "\n"+name+" 0\n") {
				t.Errorf("%s is not 0 right after the reload", name)
			}
		}
	}
	t.Setenv("PURSER_FACILITATOR_URL", "")
	t.Setenv("PURSER_RPC_URL", "")
	mustLoad(t, text)
	for _, name := range gauges[:2] {
		eventually(t, name+" is gone without one", func() bool { // the server of before may take a connection still
			_, ok := scrape(t, url, name)
			return !ok
		})
	}
}

func TestAPIStatusesAreCounted(t *testing.T) {
	t.Parallel()
	const code = "418" // which purser never answers
	w := httptest.NewRecorder()
	metrics.CountAnswer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}), w, httptest.NewRequest(http.MethodGet, "/", strings.NewReader("")))
	if !metrics.Process.Responses.DeleteLabelValues(code) {
		t.Error("not counted")
	}
}
