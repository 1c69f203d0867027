package adminapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// world is the operator's API of a purser in memory, on a socket. Commands ask it there.
type world struct {
	*adminapi.Purser
	t      *testing.T
	store  *memory.Store
	socket string
	behind atomic.Int64 // how far its clock is behind, in nanoseconds
	log    paytest.Log

	configured []adminapi.ConfiguredKey
}

// newWorld also makes the test a parallel one.
func newWorld(t *testing.T, change ...func(*pay.Options)) *world {
	t.Helper()
	t.Parallel()
	return newWorldIn(t, change...)
}

func newWorldIn(t *testing.T, change ...func(*pay.Options)) *world {
	t.Helper()
	w := &world{t: t, socket: filepath.Join(t.TempDir(), "s")}
	w.store = memory.New(memory.Options{Clock: w.now})
	base, _ := x402.NetworkByWire("base")
	log := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := pay.Options{
		Logger: log, Store: w.store, Facilitator: new(paytest.Facilitator), Clock: w.now,
		Networks: []x402.Network{base},
		Names:    pay.Names{RPC: func(string) string { return "PURSER_RPC_URL" }},
		DefaultPolicy: policy.Policy{
			MaxPayment:  policy.CapOf(money.New(1_000_000)),
			DailyBudget: policy.CapOf(money.New(10_000_000)),
		},
	}
	for _, c := range change {
		c(&o)
	}
	made := paytest.NewWorld(t, o)
	w.Purser = &adminapi.Purser{
		Payer: made.Payer, Books: made.Books, Store: w.store, Chain: o.Chain, Networks: o.Networks, Log: log, Place: "purser.db",
		Keys:           books.OperatorKeys{Books: made.Books, Network: "base", Log: log},
		DashboardURL:   func() string { return "http://127.0.0.1:8402/dashboard" },
		DashboardLinks: session.NewLinks(w.now),
		ProxyURL:       func() string { return "" }, Root: func() []byte { return nil },
		Registration:   func() *adminapi.RegistrationStatus { return &adminapi.RegistrationStatus{Open: true} },
		Quotas:         func(context.Context) (*adminapi.QuotaStatus, error) { return nil, nil },
		ConfiguredKeys: func() []adminapi.ConfiguredKey { return w.configured }, Feed: feed.New(nil),
		Enter: func() error { return nil }, Leave: func() {},
	}
	handler := &adminapi.Handler{
		Version: "v1", Serving: func() *adminapi.Purser { return w.Purser },
		Host: func() string { return "" },
	}
	server := httptest.NewUnstartedServer(handler.Mux())
	_ = server.Listener.Close()
	var err error
	server.Listener, err = new(net.ListenConfig).Listen(t.Context(), "unix", w.socket)
	w.must(err)
	server.Start()
	t.Cleanup(server.Close)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(-time.Duration(w.behind.Load())) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// key makes a key with a wallet as clients do.
func (w *world) key(label string) pay.Key {
	w.t.Helper()
	k, _, err := w.Books.CreateKey(w.t.Context(), books.KeyRequest{Label: label})
	w.must(err)
	_, err = w.Books.CreateWallet(w.t.Context(), k, "base")
	w.must(err)
	return k
}

// secret makes a key and returns its secret.
func (w *world) secret() string {
	w.t.Helper()
	_, secret, err := w.Books.CreateKey(w.t.Context(), books.KeyRequest{})
	w.must(err)
	return secret
}

// pays tries to pay an amount on REST.
func (w *world) pays(k pay.Key, settlement pay.Settlement, task string, amount int, url string) (*pay.Attempt, error) {
	w.t.Helper()
	k, err := w.Books.Key(w.t.Context(), k.ID)
	w.must(err)
	a, err := w.Payer.Pay(w.t.Context(), pay.Request{
		Key: k, Door: policy.DoorAPI, Settlement: settlement, Task: task,
		Challenge: paytest.Challenge(w.t, url, fmt.Sprint(amount)), URL: url,
	})
	if err == nil {
		paytest.Finish(w.t, w.Payer, a)
	}
	return a, err
}

// buys pays an amount, and returns the payment's id.
func (w *world) buys(k pay.Key, amount int, url string) string {
	w.t.Helper()
	a, err := w.pays(k, pay.SettlePayer, "", amount, url)
	w.must(err)
	return a.Payment().ID
}

// rule returns the rule that refuses a payment of an amount; empty if it is paid.
func (w *world) rule(k pay.Key, amount int, url string) string {
	w.t.Helper()
	_, err := w.pays(k, pay.SettlePayer, "", amount, url)
	if refused, is := errors.AsType[*pay.PolicyError](err); is {
		return refused.Rule
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// leaves journals payments of 0.01 USDC that no seller settles, each some time ago with a task of its own.
func (w *world) leaves(k pay.Key, ago ...time.Duration) (ids []string) {
	w.t.Helper()
	for i, d := range ago {
		w.behind.Store(int64(d))
		a, err := w.pays(k, pay.SettleSeller, fmt.Sprint("task-", i), 10_000, "https://api.example.com/x?token=t0ken")
		w.must(err)
		w.behind.Store(0)
		ids = append(ids, a.Payment().ID)
	}
	return ids
}

// send asks the API for a path below /purser.
func (w *world) send(method, path, kind, body string) (int, string) {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", w.socket)
		},
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://admin/purser"+path, strings.NewReader(body))
	w.must(err)
	r.Header.Set("Content-Type", kind)
	resp, err := client.Do(r)
	w.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	w.must(err)
	return resp.StatusCode, string(text)
}

// request is a request with the answer that it must get: a status, and a part of the text.
type request struct {
	method, path, body string
	status             int
	part               string
}

func (w *world) answers(requests ...request) {
	w.t.Helper()
	for _, r := range requests {
		status, text := w.send(r.method, r.path, "application/json", r.body)
		if status != r.status || !strings.Contains(text, r.part) || (status >= 400) != strings.HasPrefix(text, `{"error"`) {
			w.t.Errorf("%s %s %.80s: %d %.300s; want %d %s", r.method, r.path, r.body, status, text, r.status, r.part)
		}
	}
}

func get[T any](w *world, path string) (v T) {
	w.t.Helper()
	status, text := w.send("GET", path, "", "")
	if status != http.StatusOK {
		w.t.Fatalf("%s: %d %s", path, status, text)
	}
	return decode[T](w, text)
}

func decode[T any](w *world, text string) (v T) {
	w.t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		w.t.Fatalf("%v: %s", err, text)
	}
	return v
}

func (w *world) command(line string) clitest.Outcome {
	w.t.Helper()
	args := strings.Fields(line)
	if last := len(args) - 1; args[last] == "''" {
		args[last] = ""
	}
	return clitest.Run(w.t, []string{"PURSER_ADMIN=unix/" + w.socket}, args...)
}

// run runs a command that must succeed and print each part, but none that begins with "!". It
// returns what is printed, with single spaces between the words of a line.
func (w *world) run(line string, parts ...string) string {
	w.t.Helper()
	o := w.command(line)
	if o.Status != 0 {
		w.t.Fatalf("%s: %+v", line, o)
	}
	var lines []string
	for text := range strings.Lines(o.Stdout) {
		lines = append(lines, strings.Join(strings.Fields(text), " ")+"\n")
	}
	text := strings.Join(lines, "")
	if strings.ContainsAny(text, "\x1b") {
		w.t.Errorf("%s: a control character in %q", line, text)
	}
	for _, part := range parts {
		without, not := strings.CutPrefix(part, "!")
		if strings.Contains(text, without) == not {
			w.t.Errorf("%s: want %q in %s", line, part, text)
		}
	}
	return text
}

func ran[T any](w *world, line string) T {
	w.t.Helper()
	return decode[T](w, w.run(line+" --json"))
}

// fails runs commands that must fail with one line that has a part, and print nothing else.
func (w *world) fails(commands map[string]string) {
	w.t.Helper()
	for line, part := range commands {
		o := w.command(line)
		if o.Status != 1 || o.Stdout != "" || strings.Count(o.Stderr, "\n") != 1 || !strings.Contains(o.Stderr, part) {
			w.t.Errorf("%.80s: %+v; want %s", line, o, part)
		}
	}
}
