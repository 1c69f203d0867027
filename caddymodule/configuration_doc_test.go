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

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/setting"
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
	{"The handler `purser_upstream { … }`", "It takes the options of the transport as well.", "purser_upstream ", []string{"Upstream"}},
	{"The handler `purser_api { … }`", "", "purser_api ", []string{"API"}},
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
			case *ast.CallExpr:
				if of, ok := n.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "New" && len(n.Args) == 3 {
					if in, ok := of.X.(*ast.Ident); ok && in.Name == "setting" && literal(n.Args[1]) != "" {
						s.variables[literal(n.Args[0])] = literal(n.Args[1])
					}
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

// notConfigured are fields that are no options for people, by type. Hosts, tasks, plans, networks and transports have
// blocks of their own.
var notConfigured = map[string][]string{
	"App": {"world", "example", "plan", "network"}, "PolicyOptions": {"host", "task"}, "Upstream": {"transport"},
}

// table writes the options of a block, and notes the variables that are in it.
func (s source) table(t *testing.T, b *strings.Builder, prefix string, types []string, seen map[string]bool) {
	t.Helper()
	b.WriteString("| option | variable | what it is | default |\n|---|---|---|---|\n")
	for _, name := range types {
		if len(s.fields[name]) == 0 {
			t.Errorf("%s has no fields with comments", name)
		}
		for _, f := range s.fields[name] {
			if slices.Contains(notConfigured[name], f.name) {
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
	for _, name := range environment.Structural {
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

// formsOf maps the headings of docs/configuration.md to Caddyfiles with an option in that place.
func formsOf(s *site) map[string]func(option string) string {
	app := func(before string) func(string) string {
		return func(option string) string {
			of := *s
			of.app = before + "{\n" + option + "\n}"
			return of.caddyfile()
		}
	}
	route := func(before, after string) func(string) string {
		return func(option string) string {
			of := *s
			of.route = before + " {\n" + option + "\n}" + after
			return of.caddyfile()
		}
	}
	return map[string]func(option string) string{
		"The global option `purser { … }`": func(option string) string {
			of := *s
			if of.app = option; strings.HasPrefix(option, "data_dir ") {
				return strings.Replace(of.caddyfile(), "data_dir "+of.dir, "", 1)
			}
			return of.caddyfile()
		},
		"`network NAME { … }` in it":                  app("network base "),
		"`plan free|developer|agency { … }` in it":    app("plan free "),
		"`store bolt { … }` in it":                    app("store bolt "),
		"`store postgres { … }` in it":                app("store postgres "),
		"`wallets external { … }` in it":              app("wallets external "),
		"`wallets cdp { … }` in it":                   app("wallets cdp "),
		"`facilitator http { … }` in it":              app("facilitator http "),
		"The handler `purser_proxy { … }`":            route("purser_proxy", ""),
		"The handler `purser_upstream { … }`":         route("purser_upstream", ""),
		"The handler `purser_api { … }`":              route("purser_api", ""),
		"`transport purser { … }` of `reverse_proxy`": route("reverse_proxy 127.0.0.1:1 {\ntransport purser", "\n}"),
		"`listener_wrappers { purser { … } }`": func(option string) string {
			of := *s
			of.global = "servers {\nlistener_wrappers {\npurser {\n" + option + "\n}\n}\n}"
			return of.caddyfile()
		},
	}
}

// formless are the options whose arguments are no texts.
var formless = map[string]string{"store": "bolt", "wallets": "none", "facilitator": "http", "resolve": "a.example 127.0.0.1", "http": "{\n}", "routes": "{\nrespond 403\n}"}

var (
	rowText    = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| `?([A-Z0-9_]*)`? \\| (.*) \\| (.*) \\|$")
	suchAs     = regexp.MustCompile(`such as "?([^\s",;|]*[^\s",;|.])`)
	plainValue = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?[a-zA-Z]*|[0-9]+ (MiB|s|min)|off|on|base|exact|open|\*)$`)
)

// The parser takes every option that the document has, where it has it, and every value that it names: as an example,
// as the default, and off.
func TestDocumentedForms(t *testing.T) {
	text, err := os.ReadFile(configurationDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), beginTables)
	tables, _, _ := strings.Cut(rest, endTables)
	forms, seen, values := formsOf(newSite(t)), 0, 0
	t.Setenv("PURSER_SIGNER_URL", "http://127.0.0.1:1")
	for section := range strings.SplitSeq(tables, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		if title == "" || strings.HasPrefix(title, "Variables ") {
			continue
		}
		form := forms[title]
		if form == nil {
			t.Errorf("%s: no form is known", title)
			continue
		}
		for _, row := range rowText.FindAllStringSubmatch(body, -1) {
			name, words, unset := row[1], strings.ReplaceAll(row[3], `\|`, "|"), row[4]
			if _, err := adapt(form(name + " " + cmp.Or(formless[name], "{env.PURSER_TEST_ANY}"))); err != nil {
				t.Errorf("%s: %s: %v", title, name, err)
			}
			seen++
			named := []string{}
			for _, m := range suchAs.FindAllStringSubmatch(words, -1) {
				named = append(named, m[1])
			}
			if strings.Contains(words, "or off") {
				named = append(named, setting.Off)
			}
			if plainValue.MatchString(unset) {
				named = append(named, strings.ReplaceAll(unset, " ", ""))
			}
			if strings.Contains(words, "reference to") { // the value itself is refused
				continue
			}
			for _, value := range named {
				values++
				err := validate(form(name + " " + value))
				if err != nil && strings.Contains(err.Error(), "CDP_API_KEY_ID is not set") {
					err = nil // of other options
				}
				if err != nil {
					t.Errorf("%s: %s %s: %v", title, name, value, err)
				}
			}
		}
	}
	for _, name := range []string{"max_payment", "daily_budget", "monthly_budget"} { // which the text before the tables has
		s := newSite(t)
		for _, value := range []string{"0.5", setting.Off} {
			s.app = "host *.example.com {\n" + name + " " + value + "\n}\ntask * {\n" + name + " " + value + "\n}"
			if err := validate(s.caddyfile()); err != nil {
				t.Error(err)
			}
		}
	}
	if seen < 120 || values < 60 {
		t.Errorf("%d options and %d values only", seen, values)
	}
}
