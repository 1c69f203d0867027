package payapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/purserpay/purser/payapi/openapi"
)

// contract holds the API's description. Every answer of these tests must match it.
var contract = sync.OnceValue(func() *description {
	d, err := readDescription()
	if err != nil {
		panic(err)
	}
	return d
})

// TestMain also fails when the description has an answer that no test got. It can tell only when
// all tests ran.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" &&
		flag.Lookup("test.list").Value.String() == "" {
		for _, missing := range contract().unseen() {
			fmt.Fprintln(os.Stderr, "openapi.yaml describes what no test was answered: "+missing)
			code = 1
		}
	}
	os.Exit(code)
}

// description holds the answers that openapi.json allows.
type description struct {
	operations []*described

	mu   sync.Mutex
	seen map[string]bool
}

// described is one endpoint.
type described struct {
	method, path string
	match        *regexp.Regexp
	secured      bool
	body         bool // it takes a body
	answers      map[string]*describedAnswer
}

type describedAnswer struct {
	media   string // "": no body
	schema  *jsonschema.Schema
	texts   []string // of errors
	headers []string
}

func readDescription() (*description, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.New("").JSON))
	if err != nil {
		return nil, err
	}
	closeObjects(doc)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiler.AssertContent()
	if err := compiler.AddResource("openapi.json", doc); err != nil {
		return nil, err
	}
	d := &description{seen: map[string]bool{}}
	top := node{doc: doc, value: doc}
	for path, item := range top.at("paths").members() {
		for method, op := range item.members() {
			if method == "parameters" {
				continue
			}
			public := op.has("security")
			one := &described{
				method: strings.ToUpper(method), path: path, secured: !public, body: op.has("requestBody"),
				match:   regexp.MustCompile("^" + regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$"),
				answers: map[string]*describedAnswer{},
			}
			for status, answer := range op.at("responses").members() {
				if one.answers[status], err = readAnswer(compiler, answer); err != nil {
					return nil, fmt.Errorf("%s %s: %s: %w", method, path, status, err)
				}
			}
			d.operations = append(d.operations, one)
		}
	}
	return d, nil
}

func readAnswer(compiler *jsonschema.Compiler, answer node) (*describedAnswer, error) {
	read := &describedAnswer{}
	for name := range answer.at("headers").members() {
		read.headers = append(read.headers, name)
	}
	for media, content := range answer.at("content").members() {
		if read.media != "" {
			return nil, errors.New("two kinds of body")
		}
		read.media = media
		var err error
		if read.schema, err = compiler.Compile("openapi.json#" + content.at("schema").pointer); err != nil {
			return nil, err
		}
		for _, example := range content.at("examples").members() {
			value, _ := example.at("value").value.(map[string]any)
			if text, ok := value["error"].(string); ok {
				read.texts = append(read.texts, text)
			}
		}
	}
	return read, nil
}

// node is a place in the document, with references followed.
type node struct {
	doc, value any
	pointer    string
}

func (n node) at(name string) node {
	object, _ := n.value.(map[string]any)
	child := node{n.doc, object[name], n.pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)}
	if target, ok := child.value.(map[string]any); ok {
		if ref, ok := target["$ref"].(string); ok {
			child = node{doc: n.doc, value: n.doc}
			for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				child = child.at(part)
			}
		}
	}
	return child
}

func (n node) has(name string) bool {
	object, _ := n.value.(map[string]any)
	_, ok := object[name]
	return ok
}

func (n node) members() map[string]node {
	object, _ := n.value.(map[string]any)
	list := make(map[string]node, len(object))
	for name := range object {
		list[name] = n.at(name)
	}
	return list
}

// closeObjects forbids members that are not described. The document allows them, so that clients
// are ready for more. In these tests a member missing from the document is a mistake.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, object := v["properties"].(map[string]any)
		if _, said := v["additionalProperties"]; object && !said && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeObjects(member)
		}
	case []any:
		for _, item := range v {
			closeObjects(item)
		}
	}
}

// find returns the endpoint of a request, or nil. HEAD is answered like GET.
func (d *description) find(method, path string) *described {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, one := range d.operations {
		if one.method == method && one.match.MatchString(path) {
			return one
		}
	}
	return nil
}

// variable matches the varying part of an error's text.
var variable = regexp.MustCompile(`^(No wallet for network|Unsupported network|Unsupported payment scheme|Unsupported asset|Unsupported extension)( .*?)?(\. Create one with POST /wallets\.)?$`)

// sameText makes texts comparable that contain a value of the request.
func sameText(text string) string { return variable.ReplaceAllString(text, "$1 …$3") }

// check compares an answer with the description.
func (d *description) check(res *http.Response, body []byte) error {
	one := d.find(res.Request.Method, res.Request.URL.EscapedPath())
	if one == nil {
		return d.stray(res, body)
	}
	status := fmt.Sprint(res.StatusCode)
	answer := one.answers[status]
	if answer == nil {
		return fmt.Errorf("status %s is not described: %s", status, body)
	}
	if res.Header.Get("Retry-After") != "" && !slices.Contains(answer.headers, "Retry-After") {
		return fmt.Errorf("Retry-After of %s is not described", status)
	}
	d.note(one, status, "")
	if res.Request.Method == http.MethodHead {
		return nil
	}
	if got := res.Header.Get("Content-Type"); got != answer.media {
		return fmt.Errorf("Content-Type of %s is %q, described as %q", status, got, answer.media)
	}
	if answer.media != "application/json" {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	if err := answer.schema.Validate(value); err != nil {
		return fmt.Errorf("body of %s: %w in %s", status, err, body)
	}
	object, _ := value.(map[string]any)
	text, failed := object["error"].(string)
	if !failed {
		return nil
	}
	d.note(one, status, sameText(text))
	if !slices.ContainsFunc(answer.texts, func(known string) bool { return sameText(known) == sameText(text) }) {
		return fmt.Errorf("error %q of %s is not described", text, status)
	}
	return nil
}

// stray checks an answer to a request for no endpoint.
func (d *description) stray(res *http.Response, body []byte) error {
	var problem struct{ Error string }
	if len(body) > 0 {
		if err := json.Unmarshal(body, &problem); err != nil {
			return err
		}
	}
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusForbidden, http.StatusMisdirectedRequest:
		return nil
	// The answer to a browser's preflight.
	case http.StatusNoContent:
		if res.Request.Method == http.MethodOptions {
			return nil
		}
	}
	return fmt.Errorf("status %d of no endpoint: %s", res.StatusCode, body)
}

func (d *description) note(one *described, status, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[one.method+" "+one.path+" "+status+" "+text] = true
}

// elsewhere lists answers that these tests cannot get. The server around the API makes them while
// there is no store, or a fault makes them.
var elsewhere = regexp.MustCompile(`^GET (/|/health|/docs|/openapi\.json) (500|503 Service|503 $)`)

// unseen lists described answers that no test got.
func (d *description) unseen() (missing []string) {
	for _, one := range d.operations {
		for status, answer := range one.answers {
			for _, text := range append([]string{""}, answer.texts...) {
				if what := one.method + " " + one.path + " " + status + " " + sameText(text); !d.seen[what] && !elsewhere.MatchString(what) {
					missing = append(missing, what)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing
}
