package caddymodule

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/purserpay/purser/internal/metrics"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// described is a metric as it is documented.
type described struct {
	name, kind, help string
	labels           []string
}

var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

func describe(t *testing.T, kind string, d *prometheus.Desc) described {
	t.Helper()
	text := d.String()
	m := descPattern.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("not understood: %s", text)
	}
	return described{name: m[1], kind: kind, help: m[2], labels: strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })}
}

func allMetrics(t *testing.T) []described {
	t.Helper()
	var all []described
	for _, c := range metrics.Process.All() {
		kind := ""
		switch c.(type) {
		case *prometheus.CounterVec:
			kind = "counter"
		case *prometheus.HistogramVec:
			kind = "histogram"
		case *prometheus.GaugeVec, prometheus.Gauge:
			kind = "gauge"
		case prometheus.Counter:
			kind = "counter"
		default:
			t.Fatalf("%T", c)
		}
		to := make(chan *prometheus.Desc, 10)
		c.Describe(to)
		close(to)
		for d := range to {
			all = append(all, describe(t, kind, d))
		}
	}
	for kind, descs := range metrics.Described() {
		for _, d := range descs {
			all = append(all, describe(t, kind, d))
		}
	}
	slices.SortFunc(all, func(a, b described) int { return strings.Compare(a.name, b.name) })
	return all
}

// alertRule is an alert of deploy/prometheus.
type alertRule struct {
	Alert, Expr string
	Annotations map[string]string
}

func alertRules(t *testing.T) (all []alertRule) {
	t.Helper()
	text, err := os.ReadFile("../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []alertRule
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// alertsOf are the alerts by the metrics that they look at.
func alertsOf(t *testing.T) map[string][]string {
	t.Helper()
	of := map[string][]string{}
	for _, r := range alertRules(t) {
		names := regexp.MustCompile(`purser_[a-z_]+`).FindAllString(r.Expr, -1)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			name = strings.TrimSuffix(name, "_bucket")
			of[name] = append(of[name], r.Alert)
		}
	}
	return of
}

// An alert tells the operator what to do, with a command, and where more is said.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	const page, url = "docs/operating.md", "https://github.com/purserpay/purser/blob/main/"
	text, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	chapters := map[string]string{} // by anchor
	for chapter := range strings.SplitSeq(string(text), "\n### ") {
		title, rest, _ := strings.Cut(chapter, "\n")
		rest, _, _ = strings.Cut(rest, "\n## ")
		chapters[strings.ToLower(title)] = rest
	}
	command := regexp.MustCompile("`(purser|systemctl|df|iostat|top)[ `]")
	rules := alertRules(t)
	if len(rules) < 19 {
		t.Errorf("%d alerts", len(rules))
	}
	for _, r := range rules {
		anchor := strings.ToLower(r.Alert)
		if got := r.Annotations["runbook_url"]; got != url+page+"#"+anchor {
			t.Errorf("%s: %q", r.Alert, got)
		}
		if !command.MatchString(chapters[anchor]) {
			t.Errorf("%s has no runbook in %s with a command: %q", r.Alert, page, chapters[anchor])
		}
		if r.Annotations["summary"] == "" || !command.MatchString(r.Annotations["description"]) {
			t.Errorf("%s does not say what to do: %q", r.Alert, r.Annotations)
		}
		delete(chapters, anchor)
	}
	for anchor := range chapters {
		if strings.HasPrefix(anchor, "purser") && !strings.Contains(anchor, " ") {
			t.Errorf("a runbook of an alert that there is not: %s", anchor)
		}
	}
}

// The table of docs/metrics.md is what is registered, and every alert looks at something that is.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	alerts := alertsOf(t)
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning | alerts |\n|---|---|---|---|---|\n")
	for _, m := range allMetrics(t) {
		labels := "–"
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", m.name, m.kind, labels, m.help, strings.Join(alerts[m.name], ", "))
		delete(alerts, m.name)
		if total := strings.HasSuffix(m.name, "_total"); total != (m.kind == "counter") {
			t.Errorf("%s is a %s", m.name, m.kind)
		}
	}
	if len(alerts) > 0 {
		t.Errorf("alerts on metrics that there are not: %v", alerts)
	}
	const page = "../docs/metrics.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "-update` -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end of metrics -->")
	if !ok || !ended {
		t.Fatal("docs/metrics.md has no table of metrics")
	}
	want := before + "-update` -->\n" + table.String() + "<!-- end of metrics -->" + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // documentation
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("docs/metrics.md is not what is registered: run this test with -update")
	}
}
