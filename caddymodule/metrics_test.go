package caddymodule

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// scrape reads a metric; ok is false when it is not there.
func scrape(t *testing.T, url, name string) (value float64, ok bool) {
	t.Helper()
	status, _, text := get(t, http.DefaultClient, url)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value, true
}

func TestMetricsSurviveReload(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	s := newSite(t)
	port := freePort(t)
	text := s.caddyfile() + fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\tmetrics /metrics\n}\n", port)
	url := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	mustLoad(t, text)
	key := newKey(t, s.url())
	const settled = `purser_payments_total{network="base",outcome="settled",protocol="x402",rail="eip3009",settlement="payer"}`
	const amount = `purser_settled_amount_total{currency="USDC",network="base",protocol="x402",rail="eip3009",settlement="payer"}`
	const took = `purser_stage_duration_seconds_count{stage="settle"}`
	payments, _ := scrape(t, url, settled)
	money, _ := scrape(t, url, amount)
	mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(2_500, "https://api.example.com/v2"))
	for _, reload := range []bool{false, true} {
		if reload {
			mustLoad(t, text)
		}
		if got, _ := scrape(t, url, settled); got != payments+1 {
			t.Errorf("reload %t: %g payments, before %g", reload, got, payments)
		}
		if got, _ := scrape(t, url, amount); got != money+2_500 {
			t.Errorf("reload %t: amount %g, before %g", reload, got, money)
		}
		if got, ok := scrape(t, url, took); !ok || got < 1 {
			t.Errorf("reload %t: %g settlements took time", reload, got)
		}
		if got, ok := scrape(t, url, `purser_payments{label="open"}`); !ok || got != 0 {
			t.Errorf("reload %t: %g open payments, %t", reload, got, ok)
		}
		if got, ok := scrape(t, url, "purser_store_up"); !ok || got != 1 {
			t.Errorf("reload %t: store up %g, %t", reload, got, ok)
		}
		if got, _ := scrape(t, url, "purser_store_flush_duration_seconds_count"); got < 2 {
			t.Errorf("reload %t: %g flushes", reload, got)
		}
		if got, ok := scrape(t, url, "purser_payments_removed_total"); !ok || got != 0 {
			t.Errorf("reload %t: %g removed, %t", reload, got, ok)
		}
	}
	_, _, all := get(t, http.DefaultClient, url)
	if !strings.Contains(all, `purser_build_info{goversion="go`) || strings.Contains(all, key) {
		t.Errorf("%s", all)
	}
}
