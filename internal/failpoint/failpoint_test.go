package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Places lists every place constant once, so that tests that walk it leave none out.
func TestPlacesAreComplete(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "failpoint.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && strings.Contains(value.Value, "/") {
				name, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				named = append(named, name)
			}
		}
		return true
	})
	if len(named) == 0 || !slices.Equal(named, Places()) {
		t.Errorf("the constants are %q, the list is %q", named, Places())
	}
	slices.Sort(named)
	if len(slices.Compact(slices.Clone(named))) != len(named) {
		t.Errorf("two places have the same name: %q", named)
	}
}

// No protection is switched off while the repository's tests run.
func TestNothingIsSwitchedOff(t *testing.T) {
	t.Setenv(SwitchedOff, Journal)
	if Enabled || Off(Journal) {
		t.Errorf("a build without the tag is enabled: %v, unprotected: %v", Enabled, Off(Journal))
	}
}
