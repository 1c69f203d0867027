package payapi

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/payapi/openapi"
)

// Exactly the existing routes are described.
func TestRoutesAreDescribed(t *testing.T) {
	t.Parallel()
	a, err := New(Options{Payer: new(pay.Payer), Books: new(books.Books)})
	if err != nil {
		t.Fatal(err)
	}
	var served, described []string
	for _, r := range a.routes {
		served = append(served, r.method+" "+r.path)
	}
	ref := openapi.New("")
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(ref.JSON, &doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if !slices.Equal(served, described) {
		t.Errorf("served:    %q\ndescribed: %q", served, described)
	}
}

// Every refusal text in the code is in the description, word for word. The other tests check that
// each answer has one of these texts.
func TestTextsAreDescribed(t *testing.T) {
	t.Parallel()
	ref := openapi.New("")
	texts := refusalTexts(t)
	if len(texts) < 25 {
		t.Fatalf("only %d texts found: %q", len(texts), texts)
	}
	for _, text := range texts {
		quoted, _ := json.Marshal(text)
		if open := strings.TrimSuffix(string(quoted), ` "`); strings.HasSuffix(text, " ") { // a value follows
			quoted = []byte(open + " ")
		}
		if !strings.Contains(string(ref.JSON), `"error": `+string(quoted)) {
			t.Errorf("%q is not described", text)
		}
	}
}

// refusalTexts returns the error texts in this package's source: arguments of badRequest, simple,
// readFields and text, and texts of refusals and problems.
func refusalTexts(t *testing.T) (texts []string) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	constants := map[string]string{} // by file: "text" has one meaning in each file
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
				for i, name := range spec.Names {
					if value, ok := literal(spec.Values[i]); ok {
						constants[name.Name] += "\x00" + value
					}
				}
			}
			return true
		})
	}
	add := func(e ast.Expr) {
		if sum, ok := e.(*ast.BinaryExpr); ok {
			for left, ok := sum.X.(*ast.BinaryExpr); ok; left, ok = sum.X.(*ast.BinaryExpr) {
				sum = left
			}
			e = sum.X
		}
		if value, ok := literal(e); ok {
			texts = append(texts, value)
		} else if name, ok := e.(*ast.Ident); ok {
			texts = append(texts, strings.Split(strings.TrimPrefix(constants[name.Name], "\x00"), "\x00")...)
		}
	}
	argument := map[string]int{"badRequest": 0, "simple": 1, "readFields": 1, "text": 1}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				name, _ := n.Fun.(*ast.Ident)
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
					name = sel.Sel
				}
				if name != nil {
					if i, ok := argument[name.Name]; ok && len(n.Args) > i {
						add(n.Args[i])
					}
				}
			case *ast.KeyValueExpr:
				if name, ok := n.Key.(*ast.Ident); ok && (name.Name == "text" || name.Name == "Error") {
					add(n.Value)
				}
			}
			return true
		})
	}
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	slices.Sort(texts)
	return slices.Compact(texts)
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(l.Value)
	return value, err == nil
}
