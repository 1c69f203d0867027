package caddymodule

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The tables of docs/configuration.md are made of what the code says of itself: the comments
// of the fields that configuration is read into, the variables of its options, and what the
// shipped Caddyfile reads when it is parsed.

// blocks are the parts of a configuration, in the order of the document: where the fields are,
// and what the names of their options begin with.
var blocks = []struct {
	title, intro, prefix string
	types                []string
}{
	{"The global option `purser { … }`", "", "", []string{"App", "PolicyOptions", "BudgetOptions", "OverloadOptions", "RegistrationOptions", "SignInOptions", "NoticeOptions", "ApprovalOptions"}},
	{"`network NAME { … }` in it", "The RPCs of one network that `networks` names. The first network's may stand in `rpc_url` and `rpc_url_2` as well.", "network ", []string{"NetworkOptions"}},
	{"`plan free|developer|agency { … }` in it", "What an organization may have, where it differs from the defaults.", "plan ", []string{"PlanOptions"}},
	{"`store bolt { … }` in it", "", "store bolt ", []string{"BoltStore"}},
	{"`store postgres { … }` in it", "", "store postgres ", []string{"PostgresStore"}},
	{"`wallets external { … }` in it", "[Where keys live](operating.md#where-keys-live) says how to set it up.", "wallets external ", []string{"ExternalWallets"}},
	{"`wallets cdp { … }` in it", "", "wallets cdp ", []string{"CDPWallets"}},
	{"`facilitator http { … }` in it", "", "facilitator http ", []string{"HTTPFacilitator"}},
	{"The handler `purser_proxy { … }`", "", "purser_proxy ", []string{"Proxy", "ReachOptions"}},
	{"The handler `purser_upstream [URL] { … }`", "It takes the options of the transport as well.", "purser_upstream ", []string{"Upstream"}},
	{"`transport purser { … }` of `reverse_proxy`", "", "transport purser ", []string{"DoorOptions"}},
	{"`listener_wrappers { purser { … } }`", "", "listener purser ", []string{"Listener"}},
}

// source is the package's own code, as far as it tells of options.
type source struct {
	fields    map[string][]documentedField // by type
	variables map[string]string            // by option
}

type documentedField struct{ name, goName, doc string }

func readSource(t *testing.T) source {
	t.Helper()
	s := source{fields: map[string][]documentedField{}, variables: map[string]string{}}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if of, ok := n.Type.(*ast.StructType); ok {
					s.fields[n.Name.Name] = documented(of)
				}
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.Ident); ok && of.Name == "option" && len(n.Elts) == 3 {
					s.variables[literal(n.Elts[0])] = literal(n.Elts[1])
				}
			}
			return true
		})
	}
	return s
}

// documented are the fields of a struct that JSON knows.
func documented(of *ast.StructType) (list []documentedField) {
	for _, f := range of.Fields.List {
		if f.Tag == nil || len(f.Names) == 0 {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name != "" {
			list = append(list, documentedField{name, f.Names[0].Name, strings.Join(strings.Fields(f.Doc.Text()), " ")})
		}
	}
	return list
}

// literal is the text of a string in the code.
func literal(e ast.Expr) (text string) {
	if value, ok := e.(*ast.BasicLit); ok {
		text, _ = strconv.Unquote(value.Value)
	}
	return text
}

var (
	defaultText  = regexp.MustCompile(` ?Default: (.*)$`)
	variableText = regexp.MustCompile(`\{env\.([A-Z0-9_]+)\}(, else )?`)
)

// notConfigured are fields that are no options for people.
// Hosts, tasks, plans and other modules have blocks of their own.
var notConfigured = []string{"world", "example", "http", "transport", "hosts", "tasks", "plan", "network"}

// table writes the options of a block, and notes the variables that are in it.
func (s source) table(t *testing.T, b *strings.Builder, prefix string, types []string, seen map[string]bool) {
	t.Helper()
	b.WriteString("| option | variable | what it is | default |\n|---|---|---|---|\n")
	for _, name := range types {
		if len(s.fields[name]) == 0 {
			t.Errorf("%s has no fields with comments", name)
		}
		for _, f := range s.fields[name] {
			if slices.Contains(notConfigured, f.name) {
				continue
			}
			if f.doc == "" {
				t.Errorf("%s of %s has no comment", f.name, name)
				continue
			}
			unset, variable := "", s.variables[prefix+f.name]
			if d := defaultText.FindStringSubmatch(f.doc); d != nil {
				unset = d[1]
				f.doc = strings.TrimSuffix(f.doc, d[0])
			}
			if v := variableText.FindStringSubmatch(unset); v != nil {
				variable = cmp.Or(variable, v[1])
				unset = strings.TrimSpace(strings.Replace(unset, v[0], "", 1))
			}
			seen[variable] = true
			unset = strings.TrimSpace(strings.TrimPrefix(unset, "the module named by"))
			if unset = strings.TrimSuffix(unset, "."); strings.HasPrefix(unset, ";") {
				unset = "none" + unset
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.name, code(variable), escaped(f.sentence()), escaped(cmp.Or(unset, "none")))
		}
	}
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// sentence is a field's comment without its name.
func (f documentedField) sentence() string {
	text := strings.TrimSuffix(strings.TrimSpace(f.doc), ".")
	text = strings.TrimPrefix(strings.TrimPrefix(text, f.goName), ",")
	text = strings.TrimSpace(text)
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	return text
}

func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

var parsed = regexp.MustCompile(`\{\$(PURSER_[A-Z0-9_]+):([^}]*)\}`)

const (
	configurationDoc = "../docs/configuration.md"
	beginTables      = "<!-- made by `go test ./caddymodule -run TestConfigurationReference -update` -->\n"
	endTables        = "<!-- end of what is made -->"
)

func TestConfigurationReference(t *testing.T) {
	t.Parallel()
	s, seen := readSource(t), map[string]bool{}
	var b strings.Builder
	b.WriteString("\n## Variables that shape the Caddyfile\n\nRead when the file is: when purser starts, and when it is reloaded.\n\n" +
		"| variable | default |\n|---|---|\n")
	var shaped []string
	for _, m := range parsed.FindAllStringSubmatch(shipped(t), -1) {
		if !slices.Contains(shaped, m[1]) {
			shaped = append(shaped, m[1])
			fmt.Fprintf(&b, "| `%s` | `%s` |\n", m[1], escaped(m[2]))
		}
	}
	for _, block := range blocks {
		fmt.Fprintf(&b, "\n## %s\n\n", block.title)
		if block.intro != "" {
			b.WriteString(block.intro + "\n\n")
		}
		s.table(t, &b, block.prefix, block.types, seen)
	}
	b.WriteString("\n")
	for name, variable := range s.variables {
		if !seen[variable] && !slices.Contains(shaped, variable) {
			t.Errorf("%s of %s is in no table", variable, name)
		}
	}
	for _, name := range structural {
		if !slices.Contains(shaped, name) {
			t.Errorf("%s shapes nothing", name)
		}
	}

	text, err := os.ReadFile(configurationDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), beginTables)
	_, after, ok2 := strings.Cut(rest, endTables)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the tables", configurationDoc)
	}
	want := before + beginTables + b.String() + endTables + after
	if *update {
		if err := os.WriteFile(configurationDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("%s is not what the code says: run this test with -update", configurationDoc)
	}
}
