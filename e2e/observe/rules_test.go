package observe

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func readYAML(t *testing.T, file string, to any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// alertNames are the alerts, with their expressions.
func alertNames(t *testing.T) map[string]string {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	readYAML(t, prometheusFiles+"/alerts.yml", &rules)
	all := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = r.Expr
		}
	}
	return all
}

// Each alert fires in a test of alerts_test.yml; and whenever that says that some fire, no other does.
func TestAlertsFireForTheirCauseOnly(t *testing.T) {
	t.Parallel()
	type expectation struct {
		EvalTime  string `yaml:"eval_time"`
		AlertName string `yaml:"alertname"`
		Expected  []any  `yaml:"exp_alerts"`
	}
	type group struct {
		Interval string        `yaml:"interval"`
		Series   []any         `yaml:"input_series"`
		Alerts   []expectation `yaml:"alert_rule_test"`
	}
	var file struct{ Tests []group }
	readYAML(t, prometheusFiles+"/alerts_test.yml", &file)
	names := slices.Sorted(maps.Keys(alertNames(t)))
	fired := map[string]bool{}
	var silent []group
	for _, g := range file.Tests {
		expected, times := map[string]bool{}, map[string]bool{}
		for _, e := range g.Alerts {
			times[e.EvalTime] = true
			if len(e.Expected) > 0 {
				expected[e.AlertName], fired[e.AlertName] = true, true
			}
		}
		g.Alerts = nil
		for at := range times {
			for _, name := range names {
				if !expected[name] {
					g.Alerts = append(g.Alerts, expectation{at, name, []any{}})
				}
			}
		}
		silent = append(silent, g)
	}
	for _, name := range names {
		if !fired[name] {
			t.Errorf("%s fires in no test", name)
		}
	}
	alerts, err := filepath.Abs(prometheusFiles + "/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{alerts}, "evaluation_interval": "1m", "tests": silent})
	if err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(t.TempDir(), "silent.yml")
	if err := os.WriteFile(rules, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "test", "rules", rules)
}

// shown are the expressions of the dashboard, each with the labels that its legend names.
func shown(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/purser.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		SchemaVersion int
		Title, UID    string
		Panels        []struct {
			ID          int
			Title, Type string
			Datasource  struct{ UID string }
			FieldConfig struct{ Defaults struct{ Unit string } }
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if board.SchemaVersion < 36 || board.Title == "" || board.UID == "" {
		t.Errorf("schema %d, title %q, uid %q", board.SchemaVersion, board.Title, board.UID)
	}
	all, ids, taken := map[string][]string{}, map[int]bool{}, map[[2]int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("panel %q: id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if x >= 24 || taken[[2]int{x, y}] {
					t.Errorf("panel %q is beside the board, or over another", p.Title)
				}
				taken[[2]int{x, y}] = true
			}
		}
		if p.Type == "row" {
			continue
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if p.Datasource.UID != "${datasource}" || refs[q.RefID] {
				t.Errorf("panel %q: data source %q, query %q", p.Title, p.Datasource.UID, q.RefID)
			}
			refs[q.RefID] = true
			if want := unitOf(q.Expr); want != "" && p.FieldConfig.Defaults.Unit != want {
				t.Errorf("panel %q: unit %q of %s, want %q", p.Title, p.FieldConfig.Defaults.Unit, q.Expr, want)
			}
			all[q.Expr] = nil
			for _, l := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				all[q.Expr] = append(all[q.Expr], l[1])
			}
		}
		if len(refs) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
	}
	return all
}

// unitOf is the unit that an expression has to be shown in, "" if any will do.
func unitOf(expr string) string {
	switch {
	case strings.Contains(expr, "time() -"), strings.Contains(expr, "_seconds_bucket"):
		return "s"
	case strings.Contains(expr, "_bytes"):
		return "bytes"
	case strings.Contains(expr, "requests_total"), strings.Contains(expr, "responses_total"):
		return "reqps"
	}
	return ""
}

var (
	selector = regexp.MustCompile(`(purser_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`(?:by|on|without) \(([^)]*)\)`)
)

// queriesAreAnswered: alerts and dashboard name metrics, labels and values that a running purser has.
func queriesAreAnswered(t *testing.T, got samples) {
	t.Helper()
	labels := documentedLabels(t)
	values := got.labels()
	asked := shown(t)
	for name, expr := range alertNames(t) {
		asked[expr] = nil
		if strings.Contains(expr, "/") {
			t.Errorf("%s divides, perhaps by nothing: %s", name, expr)
		}
	}
	checked := 0
	for expr, legend := range asked {
		known := map[string]bool{"instance": true, "job": true, "le": true}
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			name := strings.TrimSuffix(m[1], "_bucket")
			have, ok := labels[name]
			if !ok {
				t.Errorf("there is no %s, in %s", name, expr)
			}
			for _, l := range have {
				known[l] = true
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if l[1] == "instance" || l[1] == "job" {
					continue
				}
				if !slices.Contains(have, l[1]) {
					t.Errorf("%s has no label %s, in %s", name, l[1], expr)
				}
				if strings.HasPrefix(l[2], "!") {
					continue
				}
				for _, word := range strings.Split(l[3], "|") {
					checked++
					fits := regexp.MustCompile("^(?:" + word + ")$").MatchString
					if !slices.ContainsFunc(slices.Collect(maps.Keys(values[m[1]+" "+l[1]])), fits) {
						t.Errorf("%s: %s is never %s, in %s", name, l[1], word, expr)
					}
				}
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			legend = append(legend, strings.Split(g[1], ", ")...)
		}
		for _, l := range legend {
			if !known[l] {
				t.Errorf("nothing has a label %s, in %s", l, expr)
			}
		}
	}
	if len(asked) < 50 || checked < 15 {
		t.Errorf("%d queries and %d values were looked at", len(asked), checked)
	}
}

// documentedLabels are the labels of each metric of docs/metrics.md.
func documentedLabels(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(purser_[a-z_]+)` \\| \\w+ \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		all[m[1]] = []string{}
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(m[2], -1) {
			all[m[1]] = append(all[m[1]], l[1])
		}
	}
	if len(all) < 30 {
		t.Fatal(fmt.Sprint(len(all), " metrics are documented"))
	}
	return all
}
