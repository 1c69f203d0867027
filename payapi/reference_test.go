package payapi_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func (d *described) url() string { return strings.ReplaceAll(d.path, "{id}", uuid.NewString()) }

// visit calls an endpoint and expects one status and text.
func (w *world) visit(d *described, key string, body any, status int, text string, header ...string) {
	w.t.Helper()
	if a := w.call(d.method, d.url(), key, body, header...); a.status != status || a.text("error") != text {
		w.t.Errorf("%s %s: %d %s, want %d %q", d.method, d.path, a.status, a.raw, status, text)
	}
}

// Refusals that all endpoints share are described for each, and each endpoint gives them.
func TestCommonRefusals(t *testing.T) {
	t.Parallel()
	open, loopback := newWorld(t), newWorld(t, func(s *setup) { s.api.LoopbackOnly = true })
	key := open.newKey()
	guessed := newWorld(t)
	large := strings.Repeat(" ", 1<<20+1)
	for _, d := range contract().operations {
		loopback.visit(d, "", nil, http.StatusMisdirectedRequest, "Misdirected request", "Host", "evil.example")
		if d.method != http.MethodGet {
			open.visit(d, key, nil, http.StatusForbidden, "Cross-site request refused", "Sec-Fetch-Site", "cross-site")
		}
		if d.body {
			open.visit(d, key, large, http.StatusRequestEntityTooLarge, "Request body too large")
		}
		if d.secured {
			open.visit(d, "", nil, http.StatusUnauthorized, "API key not resolved")
			guessed.eventually(d.path+" takes no more guesses", func() bool { // some come back every second
				return guessed.call(d.method, d.url(), "pk_one_more_guess", nil).status == http.StatusTooManyRequests
			})
		}
		if before, after, variable := strings.Cut(d.path, "{id}"); variable {
			open.call(d.method, before+"a%2Fb"+after, key, nil).is(http.StatusNotFound, "Not found")
		}
	}
}

// brokenBody is a body whose Read panics.
type brokenBody struct{ io.ReadCloser }

func (brokenBody) Read([]byte) (int, error) { panic("a bug") }

// At every endpoint that reads keys, a fault gives 500 and a missing store 503.
func TestCommonFaults(t *testing.T) {
	t.Parallel()
	faulty := newWorld(t, func(s *setup) {
		s.wrap = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Break") != "" {
					r.Body = brokenBody{r.Body}
				}
				next.ServeHTTP(w, r)
			})
		}
	})
	closed := newWorld(t)
	key, lost := faulty.newKey(), closed.newKey()
	if err := closed.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range contract().operations {
		if d.secured || d.body {
			faulty.visit(d, key, "{}", http.StatusInternalServerError, "Internal error", "X-Break", "yes")
		}
		if d.secured {
			closed.visit(d, lost, nil, http.StatusServiceUnavailable, "Service unavailable")
		}
	}
}

// get reads a page as a browser does.
func (w *world) get(path string, header ...string) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := testClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, contract().check(res, body)); err != nil {
		w.t.Fatal(err)
	}
	return res, string(body)
}

func TestReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.api.PublicURL = "https://pay.example.com/" })
	res, text := w.get("/openapi.json")
	var doc struct {
		OpenAPI string
		Servers []struct{ URL string }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || len(doc.Servers) != 1 || doc.Servers[0].URL != "https://pay.example.com" {
		t.Errorf("%+v", doc)
	}
	if got := res.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options %q", got)
	}
	page, text := w.get("/docs")
	if !strings.HasPrefix(text, "<!doctype html>") || !strings.HasPrefix(page.Header.Get("Content-Security-Policy"), "default-src 'none'; ") {
		t.Errorf("%v %.100s", page.Header, text)
	}
	for path, first := range map[string]*http.Response{"/openapi.json": res, "/docs": page} {
		tag := first.Header.Get("ETag")
		if len(tag) < 10 || first.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", path, first.Header)
		}
		for value, status := range map[string]int{
			tag: 304, "W/" + tag: 304, `"other", ` + tag: 304, "*": 304, `"other"`: 200, strings.Trim(tag, `"`): 200, "": 200,
		} {
			again, body := w.get(path, "If-None-Match", value)
			if again.StatusCode != status || again.Header.Get("ETag") != tag || (status == 304) != (body == "") {
				t.Errorf("%s with %s: %d, %d bytes, %v", path, value, again.StatusCode, len(body), again.Header)
			}
		}
		head, err := testClient.Head(w.url + path)
		if err != nil {
			t.Fatal(err)
		}
		head.Body.Close()
		if head.StatusCode != 200 || head.ContentLength != first.ContentLength || head.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %d %v", path, head.StatusCode, head.Header)
		}
	}
}
