package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/testing/needed"
)

const prometheusFiles = "../../deploy/prometheus"

// promtool runs Prometheus's own checker in deploy/prometheus, with a text on its standard input.
func promtool(t *testing.T, input string, arguments ...string) {
	t.Helper()
	program := os.Getenv("PROMTOOL")
	if program == "" {
		program = needed.Program(t, "Debian: package prometheus; or name it with PROMTOOL", "promtool")
	}
	cmd := exec.CommandContext(t.Context(), program, arguments...)
	cmd.Dir, cmd.Stdin = prometheusFiles, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	if len(bytes.TrimSpace(out)) > 0 {
		t.Logf("%s", out)
	}
}

func TestPrometheusFiles(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "config", "prometheus.yml")
	promtool(t, "", "check", "rules", "alerts.yml")
	promtool(t, "", "test", "rules", "alerts_test.yml")
}

// Payments move the metrics as they should, and texts that others make up become no label. When the
// facilitator is killed, the metrics of the real process raise the alert, and no other.
func TestMetricsFollowThePayments(t *testing.T) {
	t.Parallel()
	s := startSandbox(t)
	facilitator := s.relayFacilitator()
	before := s.scrapeUntilRead()

	if a := s.pay("/prepaid"); a.Status != http.StatusOK {
		t.Fatalf("POST /v1/pay: %d %s", a.Status, a.Body)
	}
	agent := s.proxied(s.Key, "nightly")
	for _, target := range []string{s.Seller + "/weather", s.SellerTLS + "/weather"} {
		if a := s.send(agent, http.MethodGet, target, ""); a.Status != http.StatusOK || a.Header.Get("Purser-Payment") == "" {
			t.Fatalf("%s: %d %s", target, a.Status, a.Body)
		}
	}
	if a := s.send(agent, http.MethodGet, s.Seller+"/report", ""); a.Status != http.StatusPaymentRequired {
		t.Fatalf("what is too dear: status %d", a.Status)
	}
	if a := s.send(s.proxied("pk_unknown_key", ""), http.MethodGet, s.Seller+"/weather", ""); a.Status != http.StatusProxyAuthRequired {
		t.Fatalf("an unknown key: status %d", a.Status)
	}
	rises := map[string]float64{
		`purser_payments_begun_total{door="api",network="base",protocol="x402",rail="eip3009",settlement="payer"}`:       1,
		`purser_payments_begun_total{door="proxy",network="base",protocol="x402",rail="eip3009",settlement="seller"}`:    2,
		`purser_payments_total{network="base",outcome="settled",protocol="x402",rail="eip3009",settlement="payer"}`:      1,
		`purser_payments_total{network="base",outcome="settled",protocol="x402",rail="eip3009",settlement="seller"}`:     2,
		`purser_settled_amount_total{currency="USDC",network="base",protocol="x402",rail="eip3009",settlement="payer"}`:  10_000,
		`purser_settled_amount_total{currency="USDC",network="base",protocol="x402",rail="eip3009",settlement="seller"}`: 20_000,
		`purser_facilitator_requests_total{call="verify",result="ok"}`:                                                   1,
		`purser_facilitator_requests_total{call="settle",result="ok"}`:                                                   1,
		`purser_proxy_requests_total{door="proxy",result="paid"}`:                                                        2,
		`purser_proxy_requests_total{door="proxy",result="declined"}`:                                                    1,
		`purser_proxy_requests_total{door="proxy",result="refused"}`:                                                     1,
		`purser_proxy_requests_total{door="proxy",result="tunnel"}`:                                                      1,
		`purser_refusals_total{door="proxy",rule="per-payment"}`:                                                         1,
		`purser_stage_duration_seconds_count{stage="journal"}`:                                                           4, // one is refused in it
		`purser_stage_duration_seconds_count{stage="sign"}`:                                                              3,
		`purser_stage_duration_seconds_count{stage="verify"}`:                                                            1,
		`purser_stage_duration_seconds_count{stage="settle"}`:                                                            1,
		`purser_stage_duration_seconds_count{stage="send"}`:                                                              3,
		`purser_stage_duration_seconds_count{stage="total"}`:                                                             3,
	}
	var after samples
	eventually(t, "the metrics move as the payments did", func() bool {
		after = s.scrape()
		for series, by := range rises {
			if after.values[series]-before.values[series] != by {
				return false
			}
		}
		return after.values["purser_tunnels_open"] == 0
	})
	for series, by := range rises {
		if got := after.of(t, series) - before.values[series]; got != by {
			t.Errorf("%s rose by %g, want %g", series, got, by)
		}
	}
	for series, want := range map[string]float64{
		"purser_store_up": 1, "purser_facilitator_up": 1, "purser_rpc_up": 1, "purser_reconciling": 0, "purser_spool_files": 0,
		`purser_payments{label="disputed"}`: 0, `purser_payments{label="unresolved"}`: 0,
	} {
		if got := after.of(t, series); got != want {
			t.Errorf("%s is %g, want %g", series, got, want)
		}
	}
	if after.of(t, "purser_store_file_bytes") < 1 || after.of(t, "purser_store_disk_free_bytes") < 1 {
		t.Error("the database has no size, or the disk is full")
	}
	promtool(t, after.text, "check", "metrics")
	namesAreKnown(t, after)
	s.configure(http.MethodPost, "/apps/http/servers/purser/routes/0/handle/2/key_rate", -1) // a reload has balances read anew
	eventually(t, "the wallet that has paid is looked at", func() bool {
		got := s.scrape()
		return got.labels()["purser_wallets_balance currency"]["USDC"]
	})
	queriesAreAnswered(t, s.scrape())

	t.Run("labels are bounded", func(t *testing.T) { boundedLabels(t, s) })
	t.Run("the facilitator is killed", func(t *testing.T) { killedFacilitator(t, s, facilitator) })
}

// relayFacilitator puts something that can be killed between purser and the facilitator.
func (s *sandbox) relayFacilitator() *httptest.Server {
	s.t.Helper()
	to, err := url.Parse(s.Facilitator)
	if err != nil {
		s.t.Fatal(err)
	}
	relay := httptest.NewServer(httputil.NewSingleHostReverseProxy(to))
	s.t.Cleanup(relay.Close)
	s.configure(http.MethodPatch, "/apps/purser/facilitator/url", relay.URL)
	return relay
}

// scrapeUntilRead scrapes until what is read in the background is there.
func (s *sandbox) scrapeUntilRead() (got samples) {
	s.t.Helper()
	eventually(s.t, "the facilitator and the RPC are looked at", func() bool {
		got = s.scrape()
		_, rpc := got.values["purser_rpc_up"]
		_, quota := got.values["purser_quota_used_ratio"]
		return rpc && quota
	})
	return got
}

// namesAreKnown: what is scraped is documented, and what the dashboard shows is, too.
func namesAreKnown(t *testing.T, got samples) {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(purser_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		known[m[1]] = true
	}
	for line := range strings.Lines(got.text) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" && strings.HasPrefix(f[2], "purser_") && !known[f[2]] {
			t.Errorf("%s is not in docs/metrics.md", f[2])
		}
	}
	for _, file := range []string{"../../deploy/grafana/purser.json", prometheusFiles + "/alerts.yml", prometheusFiles + "/alerts_test.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bpurser_[a-z_]+`).FindAllString(string(text), -1)
		slices.Sort(names)
		if names = slices.Compact(names); len(names) < 10 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			if !known[name] && !known[strings.TrimSuffix(name, "_bucket")] {
				t.Errorf("%s shows %s, which there is not", filepath.Base(file), name)
			}
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
	}
}

// maxLabels bounds the values of a label. The reasons of the proxy are the most.
const maxLabels = 64

// boundedLabels: eighty keys, hosts, tasks, methods and paths make no labels.
func boundedLabels(t *testing.T, s *sandbox) {
	const many = 80 // more than maxLabels
	for i := range many {
		made := s.send(direct(), http.MethodPost, s.API+"/api-keys", `{}`)
		var key struct{ Key string }
		if err := json.Unmarshal([]byte(made.Body), &key); err != nil || key.Key == "" {
			t.Fatalf("no key: %d %s", made.Status, made.Body)
		}
		agent := s.proxied(key.Key, fmt.Sprintf("random-task-%d", i))
		for _, target := range []string{
			fmt.Sprintf("http://random-host-%d.invalid/random-path-%d", i, i), // hosts that do not exist
			fmt.Sprintf("%s/weather?random-query-%d", s.Seller, i),            // cannot be paid: there is no wallet
		} {
			s.send(agent, http.MethodGet, target, "")
		}
		s.send(direct(), fmt.Sprintf("RANDOM%d", i), fmt.Sprintf("%s/random-path-%d", s.API, i), "")
	}
	got := s.scrape()
	if strings.Contains(got.text, "random") || strings.Contains(got.text, "RANDOM") || strings.Contains(got.text, "pk_") {
		t.Error("what clients made up is in the metrics")
	}
	for at, values := range got.labels() {
		if len(values) > maxLabels {
			t.Errorf("%s has %d values", at, len(values))
		}
	}
	if n := got.of(t, `purser_proxy_requests_total{door="proxy",result="declined"}`); n < many {
		t.Errorf("%g requests were declined, so this proves nothing", n)
	}
}

// killedFacilitator kills the facilitator and gives promtool what the process says before and
// after.
func killedFacilitator(t *testing.T, s *sandbox, facilitator *httptest.Server) {
	watched := []string{"purser_facilitator_up", "purser_rpc_up", "purser_store_up", "purser_reconciling"}
	healthy := s.scrapeUntilRead()
	const errs = `purser_facilitator_requests_total{call="verify",result="error"}`
	facilitator.CloseClientConnections()
	facilitator.Close()
	var failing samples
	eventually(t, "the metrics tell that the facilitator is gone", func() bool {
		failing = s.scrape()
		return failing.of(t, "purser_facilitator_up") == 0
	})
	for i := range 3 { // until it is asked no more
		s.pay(fmt.Sprintf("/prepaid?killed-%d", i))
	}
	if got := s.scrape(); got.of(t, errs) <= healthy.of(t, errs) || got.of(t, `purser_api_responses_total{code="500"}`) != healthy.of(t, `purser_api_responses_total{code="500"}`) {
		t.Errorf("%s is %g, before %g", errs, got.of(t, errs), healthy.of(t, errs))
	}
	if a := s.send(s.proxied(s.Key, ""), http.MethodGet, s.Seller+"/weather?killed", ""); a.Status != http.StatusOK {
		t.Errorf("a seller that settles by itself is not paid: %d %s", a.Status, a.Body)
	}
	var rules strings.Builder
	alerts, err := filepath.Abs(prometheusFiles + "/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&rules, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n", alerts)
	fmt.Fprintf(&rules, "  - {series: 'up{job=\"purser\",instance=\"a\"}', values: '1x30'}\n")
	for _, name := range watched {
		fmt.Fprintf(&rules, "  - {series: '%s{instance=\"a\"}', values: '%gx9 %gx20'}\n", name, healthy.of(t, name), failing.of(t, name))
	}
	rules.WriteString("  alert_rule_test:\n")
	for _, silent := range []string{"PurserDown", "PurserStoreFailing", "PurserRPCDown", "PurserReconciling"} {
		fmt.Fprintf(&rules, "  - {eval_time: 20m, alertname: %s, exp_alerts: []}\n", silent)
	}
	rules.WriteString("  - {eval_time: 9m, alertname: PurserFacilitatorDown, exp_alerts: []}\n" +
		"  - eval_time: 20m\n    alertname: PurserFacilitatorDown\n    exp_alerts:\n" +
		"    - exp_labels: {severity: critical, instance: a}\n      exp_annotations:\n" +
		"        summary: The facilitator does not answer purser on a\n" +
		"        description: Payments that purser settles itself are refused. Those that sellers settle go on. `purser status` says what it answers.\n" +
		"        runbook_url: https://github.com/purserpay/purser/blob/main/docs/operating.md#purserfacilitatordown\n")
	file := filepath.Join(t.TempDir(), "killed.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "test", "rules", file)
}
