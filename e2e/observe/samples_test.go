package observe

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// samples holds the result of a scrape, by metric and labels as written.
type samples struct {
	text   string
	values map[string]float64
}

func (s *sandbox) scrape() samples {
	s.t.Helper()
	a := s.send(direct(), http.MethodGet, s.Metrics, "")
	if a.Status != http.StatusOK {
		s.t.Fatalf("scrape: %d %s", a.Status, a.Body)
	}
	got := samples{a.Body, map[string]float64{}}
	for line := range strings.Lines(a.Body) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		got.values[line[:at]] = v
	}
	return got
}

// of is a sample that must be there.
func (m samples) of(t *testing.T, series string) float64 {
	t.Helper()
	v, ok := m.values[series]
	if !ok {
		t.Errorf("there is no %s", series)
	}
	return v
}

var labelPattern = regexp.MustCompile(`([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"`)

// labels are the values that the labels of purser's metrics have, by metric and label.
func (m samples) labels() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for series := range m.values {
		name, rest, _ := strings.Cut(series, "{")
		if !strings.HasPrefix(name, "purser_") {
			continue
		}
		for _, l := range labelPattern.FindAllStringSubmatch(rest, -1) {
			if l[1] == "le" {
				continue
			}
			at := name + " " + l[1]
			if all[at] == nil {
				all[at] = map[string]bool{}
			}
			all[at][l[2]] = true
		}
	}
	return all
}
