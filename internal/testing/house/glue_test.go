package house

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxGlue bounds the lines of caddymodule without its tests: it joins packages to Caddy, and has
// nothing of its own to do.
const maxGlue = 6600

// Each file of caddymodule imports Caddy, or its first comment says why it is there all the same.
func TestCaddymoduleIsGlue(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../caddymodule/*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		glue := len(parsed.Comments) > 0 && strings.Contains(parsed.Comments[0].Text(), "No Caddy here: ")
		for _, i := range parsed.Imports {
			glue = glue || strings.HasPrefix(i.Path.Value, `"github.com/caddyserver/`)
		}
		if !glue {
			t.Errorf("%s does not import Caddy, and its first comment does not say why (\"No Caddy here: …\")", name)
		}
	}
	if len(files) == 0 || lines >= maxGlue {
		t.Errorf("%d files, %d lines, %d are too many", len(files), lines, maxGlue)
	}
}
