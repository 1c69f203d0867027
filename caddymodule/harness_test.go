package caddymodule

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/internal/program"
)

// Tests that load a configuration share Caddy's one global state, so they do not run in
// parallel.

// asCommand, in its environment, makes the test program the program purser or, if it is "caddy", a Caddy of one's own.
const asCommand = "CADDYMODULE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if name := os.Getenv(asCommand); name != "" {
		line.PublicRPC = nil // tests reach nothing but this machine
		if name == "caddy" {
			caddycmd.Main()
			return
		}
		caddy.CustomBinaryName = "purser"
		program.Main(AsPurser())
		return
	}
	AsPurser()
	registerTestHandlers()
	home, err := os.MkdirTemp("", "purser-caddy")
	if err != nil {
		panic(err)
	}
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "PURSER_") {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("XDG_DATA_HOME", home)
	_ = os.Setenv("XDG_CONFIG_HOME", home)
	code := m.Run()
	_ = os.RemoveAll(home)
	os.Exit(code)
}

// shipped is the Caddyfile that people start from.
func shipped(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../xcaddy.Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// adapt turns a Caddyfile into JSON.
func adapt(caddyfile string) ([]byte, error) {
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err == nil && len(warnings) > 0 {
		for _, w := range warnings {
			if !strings.Contains(w.Message, "not formatted") {
				return config, fmt.Errorf("warning: %s", w)
			}
		}
	}
	return config, err
}

// validate does what `purser validate` does.
func validate(caddyfile string) error {
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
		return err
	}
	return caddy.Validate(&c)
}

// load runs a Caddyfile, replacing what runs, until the test ends. When it returns, the configuration before takes no
// connections any more: Caddy closes its listeners in the background.
func load(t *testing.T, caddyfile string) error {
	config, err := adapt(caddyfile)
	if err == nil {
		config, err = withClosing(config)
	}
	if err != nil {
		return err
	}
	before := listening()
	t.Cleanup(func() { _ = caddy.Stop() })
	if err := caddy.Load(config, true); err != nil {
		return err
	}
	for _, closed := range before {
		select {
		case <-closed:
		case <-time.After(time.Minute):
			return errors.New("the configuration before still listens")
		}
	}
	return nil
}

// mustLoad loads a configuration. Caddy closes the listeners of one that failed before, or was
// stopped, when it likes: until then their ports are taken.
func mustLoad(t *testing.T, caddyfile string) {
	t.Helper()
	if s := serving(); s != nil && !strings.Contains(caddyfile, s.app.settings.dataDir) {
		if err := caddy.Stop(); err != nil { // another purser, with books of its own
			t.Fatal(err)
		}
	}
	var err error
	eventually(t, "ports are given back", func() bool {
		err = load(t, caddyfile)
		return err == nil || !strings.Contains(err.Error(), "another program listens")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// persistent sends a request again whose connection was closed before an answer. Caddy closes the listeners of a
// configuration that has failed in the background, and connections that wait there are reset.
type persistent struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper, for requests without a body.
func (p persistent) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	for range 5 {
		if resp, err = p.RoundTripper.RoundTrip(r); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			break
		}
	}
	return resp, err
}

// site is a configuration for tests: one site on a free port.
type site struct {
	dir     string // data directory
	port    int
	bind    string
	app     string // more options of the app
	global  string // more global options
	route   string // default: purser_api
	storage string
}

func newSite(t *testing.T) *site {
	t.Helper()
	return &site{dir: t.TempDir() + "/data", port: freePort(t), bind: "127.0.0.1", route: "purser_api", storage: t.TempDir()}
}

func (s *site) url() string { return "http://127.0.0.1:" + strconv.Itoa(s.port) }

func (s *site) caddyfile() string {
	return fmt.Sprintf(`{
	admin off
	persist_config off
	storage file_system %s
	log default {
		level WARN
	}
	%s
	purser {
		data_dir %s
		%s
	}
}
http://:%d {
	bind %s
	route {
		%s
	}
}
`, s.storage, s.global, s.dir, s.app, s.port, s.bind, s.route)
}

var freePorts ports.Free

// freePort returns a port of this machine on which no program listens.
func freePort(t *testing.T) int {
	t.Helper()
	port, err := freePorts.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	return port[0]
}

// standIn is a facilitator that finds every payment valid and settled.
type standIn struct {
	*httptest.Server
	settled atomic.Int64
	// hold, when set, is waited for before /verify answers; asked is told that it waits.
	hold  chan struct{}
	asked chan struct{}
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	f := &standIn{asked: make(chan struct{}, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /supported", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"kinds":[]}`)
	})
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, _ *http.Request) {
		if f.hold != nil {
			f.asked <- struct{}{}
			<-f.hold
		}
		fmt.Fprint(w, `{"isValid":true}`)
	})
	mux.HandleFunc("POST /settle", func(w http.ResponseWriter, _ *http.Request) {
		n := f.settled.Add(1)
		fmt.Fprintf(w, `{"success":true,"transaction":"0x%064x","network":"eip155:8453"}`, n)
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

// challenge is a 402 for an amount of smallest units.
func challenge(amount int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"x402Version":2,"error":"Payment required",`+
		`"resource":{"url":"https://api.example.com/v2"},"accepts":[{"scheme":"exact","network":"eip155:8453","amount":"%d",`+
		`"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C",`+
		`"maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}]}`, amount))
}

// call makes a request of the API and decodes its answer.
func call(ctx context.Context, method, url, key, body string) (int, map[string]any, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	answer := map[string]any{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil {
			return resp.StatusCode, nil, fmt.Errorf("%q: %w", text, err)
		}
	}
	return resp.StatusCode, answer, nil
}

// mustCall is call that must answer with a status.
func mustCall(t *testing.T, want int, method, url, key, body string) (answer map[string]any) {
	t.Helper()
	var status int
	connected(t, func() (err error) {
		status, answer, err = call(t.Context(), method, url, key, body)
		return err
	})
	if status != want {
		t.Fatalf("%s %s: status %d, %v; want %d", method, url, status, answer, want)
	}
	return answer
}

// connected tries until there is an answer: right after a reload, Caddy resets connections
// that its old listener had accepted.
func connected(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// get makes a plain request.
func get(t *testing.T, c *http.Client, url string) (status int, header http.Header, text string) {
	t.Helper()
	connected(t, func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := c.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		status, header, text = resp.StatusCode, resp.Header, string(body)
		return err
	})
	return status, header, text
}

// newKey makes a key with a wallet.
func newKey(t *testing.T, url string) string {
	t.Helper()
	key := mustCall(t, 201, "POST", url+"/api-keys", "", `{"label":"test"}`)["key"].(string)
	mustCall(t, 201, "POST", url+"/wallets", key, `{"network":"base"}`)
	return key
}

func payBody(amount int, requestURL string) string {
	return fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":%q}`, challenge(amount), requestURL)
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
