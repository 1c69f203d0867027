package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/figures"
)

var update = flag.Bool("update", false, "draw the figures of storms in docs/performance.md")

// The page has the figures that were measured last. They have a run of their own, without the rest of the page.
func TestPageHasTheStorms(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	measured, err := figures.ReadStorms(root)
	if err != nil {
		t.Fatal(err)
	}
	var part strings.Builder
	storms(&part, measured)
	path := filepath.Join(root, docsFolder, "performance.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if !*update {
		if !strings.Contains(page, part.String()) {
			t.Error("docs/performance.md has other figures than e2e/bench/storms.json: go test ./e2e/bench -run TestPageHasTheStorms -update")
		}
		return
	}
	before, after, found := strings.Cut(page, "## Sizing\n")
	before, _, _ = strings.Cut(before, stormsTitle)
	if !found {
		t.Fatal("the page has no part behind the storms")
	}
	if err := os.WriteFile(path, []byte(before+part.String()+"## Sizing\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
