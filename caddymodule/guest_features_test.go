package caddymodule

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// manners is a Caddyfile with every directive of purser's in blocks that Caddy has for every directive.
const manners = `{
	admin off
	purser {
		allow_hosts a.example, b.example
		host a.example {
			max_payment 0.5
		}
		plan free {
			keys 3
		}
		store bolt {
			min_free 1MiB
		}
	}
}

(budget) {
	task {args[0]}
	max_replay {args[1]}
}

(paid) {
	reverse_proxy {args[0]} {
		transport purser {
			import budget {args[1]} 2MiB
		}
	}
}

&(books) {
	purser_api {
		key_rate 7
	}
}

http://127.0.0.1:8402 {
	import paid 127.0.0.1:1 nightly
}

http://:8403 {
	route /api/* {
		invoke books
	}
	purser_proxy {
		allow_addresses 10.0.0.0/8 192.168.0.0/16
		resolve a.example 127.0.0.1
	}
	handle_errors {
		purser_upstream {
			to http://127.0.0.1:1
			import budget errors 3MiB
		}
	}
}
`

// A file that caddy fmt has written means the same, and is written so once.
func TestFormattedFileIsTheSame(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"shipped": shipped(t), "manners": manners,
		"untidy": strings.NewReplacer("\t", "  ", "{\n", "{ \n\n").Replace(manners),
	} {
		formatted := caddyfile.Format([]byte(text))
		if again := caddyfile.Format(formatted); !bytes.Equal(again, formatted) {
			t.Errorf("%s: formatted twice it is another file", name)
		}
		before, err := adapt(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after, err := adapt(string(formatted))
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: %v\n%s\n%s", name, err, before, after)
		}
	}
}

// Snippets and files are imported with arguments, into blocks of purser's too.
func TestImports(t *testing.T) {
	t.Parallel()
	config, err := adapt(manners)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"transport":{"http":{},"max_replay":"2MiB","protocol":"purser","task":"nightly"}`,
		`"to":"http://127.0.0.1:1","transport":{"http":{},"max_replay":"3MiB","task":"errors"}`,
	} {
		if !strings.Contains(string(config), part) {
			t.Errorf("%s is not in %s", part, config)
		}
	}
	file := filepath.Join(t.TempDir(), "limits.conf")
	if err := os.WriteFile(file, []byte("max_payment {args[0]}\nhost {args[1]} {\n\tdaily_budget {args[0]}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	imported := func(lines string) (string, error) {
		config, err := adapt("{\n\tpurser {\n" + lines + "\n\t}\n}\n")
		return string(config), err
	}
	got, err := imported("import " + file + " 0.5 a.example")
	if err != nil || !strings.Contains(got, `{"max_payment":"0.5","host":{"a.example":{"daily_budget":"0.5"}}}`) {
		t.Errorf("%s, %v", got, err)
	}
	for lines, want := range map[string]string{
		"max_payment 1\nimport " + file + " 0.5 a.example":                         "max_payment is given twice, first at Caddyfile:3, at " + file + ":1",
		"import " + file + " 0.5 a.example\nhost a.example {\nmonthly_budget 1\n}": "is given twice, first at " + file + ":2, at Caddyfile:4",
		"import " + file + " 0.5 a.example\nimport " + file + " 0.5 b.example":     "max_payment is given twice, first at " + file + ":1, at " + file + ":1",
	} {
		if _, err := imported(lines); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", lines, err, want)
		}
	}
}

// Named routes and handle_errors serve with purser's directives.
func TestNamedRoutesAndErrorRoutes(t *testing.T) {
	s := newSite(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "upstream "+r.URL.Path) }))
	t.Cleanup(api.Close)
	text := replaceOnce(t, s.caddyfile(), "\troute {\n\t\tpurser_api\n\t}\n", `
	error /broken 500
	respond /plain "plain"
	handle /api-keys {
		invoke books
	}
	handle_errors {
		purser_upstream {
			to `+api.URL+`
		}
	}
`)
	mustLoad(t, replaceOnce(t, text, "http://:", "&(books) {\n\tpurser_api\n}\nhttp://:"))
	if key := mustCall(t, http.StatusCreated, "POST", s.url()+"/api-keys", "", `{"label":"x"}`)["key"]; key == "" {
		t.Error("no key")
	}
	for path, want := range map[string]string{"/broken": "upstream /broken", "/plain": "plain"} {
		if _, _, got := get(t, http.DefaultClient, s.url()+path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}
