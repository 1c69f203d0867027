package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page is drawn of whatever was measured: its charts are XML, and it has no number that is none.
func TestDraw(t *testing.T) {
	t.Parallel()
	whole := &report{FsyncMS: 0.2, Cores: 2, events: 1_000_000, Idle: idle{1000, 20, 60, 90}}
	whole.File, whole.Start = files{5.6, 1.2, 1.2}, starts{60, 100_000, 900, 400, 1_000_000, 300}
	for _, n := range levels {
		for _, name := range []string{purserProxy, fetchV2, bareGo} {
			whole.add("paid", name, measurement{Clients: n, Rate: 1000, CPU: 0.2, P50: 1, P99: 2, GapP50: 0.4, WroteKB: 7})
		}
		whole.add("free", purserProxy, measurement{Clients: n, Rate: 9000, P50: 0.1})
		whole.add("free", plainCaddy, measurement{Clients: n, Rate: 10000, P50: 0.1})
	}
	for name, r := range map[string]*report{"whole": whole, "empty": {}} {
		r.compare()
		folder := t.TempDir()
		if err := r.draw(folder); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(folder, "performance.md"))
		if err != nil {
			t.Fatal(err)
		}
		pictures, err := filepath.Glob(filepath.Join(folder, "performance", "*.svg"))
		if err != nil || len(pictures) != map[string]int{"whole": 6}[name] {
			t.Fatalf("%s: charts %v, %v", name, pictures, err)
		}
		texts := []string{string(page)}
		for _, file := range pictures {
			svg, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %s: %v", name, file, err)
				}
			}
			texts = append(texts, string(svg))
		}
		for _, text := range texts {
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s: no number in %s", name, text)
			}
		}
		if whole := strings.Contains(string(page), "## Sizing") && strings.Contains(string(page), "| met |"); whole != (name == "whole") {
			t.Errorf("%s: page %s", name, page)
		}
	}
}

// Rounds are compared one by one: here the machine was four times as fast in the last one.
func TestShareOfRounds(t *testing.T) {
	t.Parallel()
	a, b := measurement{Rounds: []float64{11, 9, 40}}, measurement{Rounds: []float64{10, 10, 40}}
	if got := a.share(b); got != 1 {
		t.Errorf("the middle share is %v, not 1", got)
	}
	if got := a.share(measurement{Rate: 10}); got != 0 {
		t.Errorf("a share of something without rounds is %v", got)
	}
}
