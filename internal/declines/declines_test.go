package declines

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

var update = flag.Bool("update", false, "write the tables of docs/troubleshooting.md")

const page = "../../docs/troubleshooting.md"

// table is a group as the page shows it. Words with the same meaning share a line.
func table(g Group) string {
	var b strings.Builder
	b.WriteString("| reason | why | the agent's developer | the operator |\n|---|---|---|---|\n")
	for _, r := range All() {
		if r.Group == g {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Word, r.Why, r.Developer, r.Operator)
		}
	}
	return b.String()
}

// The tables of the page are made from the code: go test ./internal/declines -update.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := text
	for _, g := range []Group{Policy, Unsent, Sidecar, Unable, Sent} {
		place := regexp.MustCompile(`(?s)(### ` + string(g) + "\n.*?\n\n)" + `\| reason \|.*?\n\n`)
		if !place.Match(want) {
			t.Fatalf("the page has no table %q", g)
		}
		want = place.ReplaceAllFunc(want, func(old []byte) []byte {
			return slices.Concat(place.FindSubmatch(old)[1], []byte(table(g)), []byte("\n"))
		})
	}
	place := regexp.MustCompile(`(?s)(### What the words say\n.*?\n\n)` + `\| the agent sees \|.*?\n\n`)
	var sights strings.Builder
	sights.WriteString("| the agent sees | why | do |\n|---|---|---|\n")
	for _, s := range Sights() {
		fmt.Fprintf(&sights, "| %s | %s | %s |\n", s.Sees, s.Why, s.Do)
	}
	if !place.Match(want) {
		t.Fatal("the page has no table of words")
	}
	want = place.ReplaceAllFunc(want, func(old []byte) []byte {
		return slices.Concat(place.FindSubmatch(old)[1], []byte(sights.String()), []byte("\n"))
	})
	if bytes.Equal(text, want) {
		return
	}
	if !*update {
		t.Fatal("docs/troubleshooting.md is not what the code says: go test ./internal/declines -update")
	}
	if err := os.WriteFile(page, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every reason that the code gives is told of, and no other.
func TestEveryReason(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	for dir, find := range map[string]func(ast.Node, map[string]bool){
		"../../pay": rules, "../../policy": rules, "../../proxy": declined, "../../caddymodule": declined,
	} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				find(n, given)
				return true
			})
		}
	}
	for _, part := range []string{"", "host-", "task-"} { // the budgets of pay/spending.go
		for _, p := range policy.Periods {
			given[part+p.Rule()] = true
		}
	}
	for _, fault := range []x402.OfferFault{x402.OfferUnreadable, x402.OfferDiffers, x402.OfferForged, x402.OfferExpired} { // pay/choose.go
		given["offer-"+string(fault)] = true
	}
	given[pay.RuleRedirected] = true // pay/redirect.go
	given[pay.RuleTaskTotal], given[pay.RuleTaskEnded] = true, true
	for _, answer := range []pay.ApprovalAnswer{"", pay.Denied} {
		given[(&pay.ApprovalError{Approval: pay.Approval{Answer: answer}}).Rule()] = true
	}
	told := map[string]bool{}
	for _, r := range All() {
		told[r.Word] = true
		if Why(r.Word) == "" || r.Developer == "" || r.Operator == "" || strings.HasSuffix(r.Why+r.Developer+r.Operator, ".") || strings.ContainsAny(Do(r.Word).String(), "`[]\n") {
			t.Errorf("%s: %+v", r.Word, r)
		}
	}
	for word := range given {
		if !told[word] {
			t.Errorf("nothing is told of %q", word)
		}
	}
	for word := range told {
		if !given[word] {
			t.Errorf("nothing declines for %q", word)
		}
	}
	if len(given) < 40 || Why("unknown") != "" {
		t.Errorf("%d reasons are too few", len(given))
	}
}

// rules finds the rules of policies: the first argument of what refuses, the field Rule, the rules of pauses.
func rules(n ast.Node, into map[string]bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		f, is := n.Fun.(*ast.Ident)
		if s, selects := n.Fun.(*ast.SelectorExpr); selects {
			f, is = s.Sel, true
		}
		if is && slices.Contains([]string{"refusedBy", "refuse", "TooDear"}, f.Name) {
			literal(n.Args[0], into)
		}
	case *ast.KeyValueExpr:
		if k, is := n.Key.(*ast.Ident); is && k.Name == "Rule" {
			literal(n.Value, into)
		}
	case *ast.ValueSpec:
		if name := n.Names[0].Name; name == "RulePaused" || name == "RuleHostPaused" {
			literal(n.Values[0], into)
		}
	}
}

// declined finds the constants of the doors.
func declined(n ast.Node, into map[string]bool) {
	spec, is := n.(*ast.ValueSpec)
	if !is || len(spec.Values) != len(spec.Names) {
		return
	}
	for i, name := range spec.Names {
		if strings.HasPrefix(strings.ToLower(name.Name), "declined") {
			literal(spec.Values[i], into)
		}
	}
}

func literal(e ast.Expr, into map[string]bool) {
	if l, is := e.(*ast.BasicLit); is && l.Kind == token.STRING {
		if word, err := strconv.Unquote(l.Value); err == nil {
			into[word] = true
		}
	}
}

// An error has one reason.
func TestCodes(t *testing.T) {
	t.Parallel()
	rows := map[pay.ErrorCode][]string{}
	for _, r := range All() {
		for _, code := range r.Codes {
			rows[code] = append(rows[code], r.Word)
		}
	}
	for code, words := range rows {
		if len(words) != 1 || Of(code).Word != words[0] {
			t.Errorf("%s: %v, %q", code, words, Of(code).Word)
		}
	}
	if len(rows) < 15 || Of(pay.CodeInternal).Word != "" {
		t.Errorf("%d errors have reasons", len(rows))
	}
}
