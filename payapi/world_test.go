package payapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/payapi"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

const (
	usdc   = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	seller = "0x1111111111111111111111111111111111111111"
	bought = "https://api.example.com/report"

	internalSecret = "internal-secret-of-the-tests"
	facilitatorKey = "facilitator-key-of-the-tests"
)

// store is the payer's store, in memory or on disk.
type store interface {
	pay.Store
	Check(ctx context.Context) error
	Close() error
}

// world is the API over HTTP with a real signer and facilitator client.
type world struct {
	t           *testing.T
	url         string
	api         *payapi.API
	payer       *pay.Payer
	books       *books.Books
	store       store
	facilitator *standIn
	clock       *clock
	logs        *paytest.Log
	answers     *paytest.Log // every answer's header and body
}

// setup holds settings that a test may change before the world starts.
type setup struct {
	pay           pay.Options
	api           payapi.Options
	disk          *boltstore.Options // nil: the store is in memory
	noFacilitator bool
	dates         bool // purser compares its clock with the facilitator's
	wrap          func(http.Handler) http.Handler
}

// onDisk keeps the store in a file, for tests that read it or outlive the process.
func onDisk(path string) func(*setup) {
	return func(s *setup) { s.disk = &boltstore.Options{Path: path} }
}

func newWorld(t *testing.T, change ...func(*setup)) *world {
	t.Helper()
	w := &world{t: t, clock: newClock(), logs: &paytest.Log{}, answers: &paytest.Log{}, facilitator: newStandIn(t)}
	log := slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := setup{
		pay: pay.Options{Clock: w.clock.now, Logger: log, RepeatWait: 10 * time.Second},
		api: payapi.Options{
			Version: "1.2.3", InternalSecret: internalSecret, Logger: log, Clock: w.clock.now, KeyRate: -1,
		},
	}
	for _, c := range change {
		c(&s)
	}
	var err error
	w.store = memory.New(memory.Options{Clock: w.clock.now})
	if s.disk != nil {
		s.disk.MasterKey, s.disk.Clock, s.disk.Logger = vault.Given(vault.MasterKey{1}), w.clock.now, log
		if w.store, err = boltstore.Open(t.Context(), *s.disk); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = w.store.Close() })
	s.pay.Store = w.store
	if !s.noFacilitator {
		client, err := facilitator.New(facilitator.Options{URL: w.facilitator.url, Key: facilitatorKey, Logger: log, Clock: w.clock.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		if s.dates {
			s.pay.Time = pay.NewTimekeeper(w.clock.now)
			client.WatchDates(s.pay.Time.Dates(pay.SourceFacilitator))
		}
		s.pay.Facilitator = client
	}
	made := paytest.NewWorld(t, s.pay)
	w.payer, w.books = made.Payer, made.Books
	s.api.Payer, s.api.Books = w.payer, w.books
	if w.api, err = payapi.New(s.api); err != nil {
		t.Fatal(err)
	}
	var h http.Handler = w.api
	if s.wrap != nil {
		h = s.wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

// answer is one answer of the API.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// call makes a request with a JSON body (nil: none; a string: as it is) and pairs of headers. A key
// of "" sends none.
func (w *world) call(method, path, key string, body any, header ...string) answer {
	w.t.Helper()
	a, err := w.try(w.t.Context(), method, path, key, body, header...)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) try(ctx context.Context, method, path, key string, body any, header ...string) (answer, error) {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return answer{}, err
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, reader)
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Add(header[i], header[i+1])
		}
	}
	res, err := testClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	fmt.Fprintln(w.answers, method, path, res.Header, string(text))
	a := answer{t: w.t, status: res.StatusCode, header: res.Header, raw: string(text)}
	if err := contract().check(res, text); err != nil {
		return a, fmt.Errorf("%s %s: openapi.yaml: %w", method, path, err)
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &a.body); err != nil {
			return a, fmt.Errorf("%s %s answered %d with no JSON object: %q", method, path, a.status, text)
		}
		if got := res.Header.Get("Content-Type"); got != "application/json" {
			return a, fmt.Errorf("%s %s: Content-Type %q", method, path, got)
		}
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		return a, fmt.Errorf("%s %s: Cache-Control %q", method, path, got)
	}
	return a, nil
}

var testClient = &http.Client{
	Timeout:       time.Minute,
	Transport:     &http.Transport{MaxIdleConnsPerHost: 32},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// is checks status and error text. An empty text means success.
func (a answer) is(status int, text string) answer {
	a.t.Helper()
	got, _ := a.body["error"].(string)
	if a.status != status || got != text {
		a.t.Fatalf("answered %d %q, want %d %q: %s", a.status, got, status, text, a.raw)
	}
	return a
}

// text reads a string member; dots lead into objects.
func (a answer) text(path string) string {
	a.t.Helper()
	s, ok := a.at(path).(string)
	if !ok {
		a.t.Fatalf("%s is no string in %s", path, a.raw)
	}
	return s
}

func (a answer) at(path string) any {
	var v any = a.body
	for part := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[part]
	}
	return v
}

// want compares members with values as JSON shows them.
func (a answer) want(path string, want any) answer {
	a.t.Helper()
	got, _ := json.Marshal(a.at(path))
	exp, _ := json.Marshal(want)
	if !bytes.Equal(got, exp) {
		a.t.Fatalf("%s is %s, want %s in %s", path, got, exp, a.raw)
	}
	return a
}

// list returns an array of objects.
func (a answer) list(path string) []map[string]any {
	a.t.Helper()
	items, ok := a.at(path).([]any)
	if !ok {
		a.t.Fatalf("%s is no array in %s", path, a.raw)
	}
	out := make([]map[string]any, len(items))
	for i, item := range items {
		out[i], _ = item.(map[string]any)
	}
	return out
}

// newKey makes a key without a wallet. payingKey makes one with a wallet on base.
func (w *world) newKey() string {
	w.t.Helper()
	return w.call("POST", "/api-keys", "", nil).is(201, "").text("key")
}

func (w *world) payingKey() string {
	w.t.Helper()
	key := w.newKey()
	w.call("POST", "/wallets", key, nil).is(201, "")
	return key
}

// paysFor pays for a task with a key, and returns the payment's id.
func (w *world) paysFor(secret, task, url string) string {
	w.t.Helper()
	key, err := w.payer.Resolve(w.t.Context(), secret)
	if err != nil {
		w.t.Fatal(err)
	}
	challenge, err := x402.DecodeHeader(v1(requirement(nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := w.payer.Pay(w.t.Context(), pay.Request{
		Key: key, Door: policy.DoorAPI, Task: task, Settlement: pay.SettlePayer, Challenge: challenge, URL: url,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return paytest.Finish(w.t, w.payer, a).ID
}

// eventually polls, because leases are released after the answer.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("never happened: " + what)
		}
	}
}

// released waits until the payment's lease is released.
func (w *world) released(id string) *pay.Payment {
	w.t.Helper()
	var row *pay.Payment
	w.eventually("lease of "+id+" released", func() bool {
		var err error
		if row, err = w.store.Payment(w.t.Context(), id); err != nil {
			w.t.Fatal(err)
		}
		return row.Lease.Owner == ""
	})
	return row
}

// requirement returns a v1 requirement for USDC on base. changes overwrite members; nil removes
// them.
func requirement(changes map[string]any) map[string]any {
	return overwrite(map[string]any{
		"scheme": "exact", "network": "base", "maxAmountRequired": "10000", "asset": usdc, "payTo": seller,
		"resource": bought, "description": "", "mimeType": "", "maxTimeoutSeconds": 120,
		"extra": map[string]any{"name": "USD Coin", "version": "2"},
	}, changes)
}

func requirementV2(changes map[string]any) map[string]any {
	return overwrite(map[string]any{
		"scheme": "exact", "network": "eip155:8453", "amount": "10000", "asset": usdc, "payTo": seller,
		"maxTimeoutSeconds": 120, "extra": map[string]any{"name": "USD Coin", "version": "2"},
	}, changes)
}

func overwrite(m, changes map[string]any) map[string]any {
	for k, v := range changes {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	return m
}

func v1(accepts ...map[string]any) string {
	return encode(map[string]any{"x402Version": 1, "error": "", "accepts": accepts})
}

func v2(accepts ...map[string]any) string {
	return encode(map[string]any{"x402Version": 2, "resource": map[string]any{"url": bought}, "accepts": accepts})
}

// encode returns the base64 of a value's JSON.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}

// order returns a body of /v1/pay with its own amount.
func order(amount int, extra ...any) map[string]any {
	body := map[string]any{
		"paymentRequiredHeader": v1(requirement(map[string]any{"maxAmountRequired": fmt.Sprint(amount)})),
		"requestUrl":            bought,
	}
	for i := 0; i < len(extra); i += 2 {
		body[extra[i].(string)] = extra[i+1]
	}
	return body
}

// clock starts in the middle of a month, so that no test crosses a month's end.
type clock struct {
	start, base time.Time
	ahead       atomic.Int64
	stands      atomic.Bool // it moves by advance only
}

func newClock() *clock {
	return &clock{start: time.Now(), base: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
}

func (c *clock) now() time.Time {
	if c.stands.Load() {
		return c.base.Add(time.Duration(c.ahead.Load()))
	}
	return c.base.Add(time.Since(c.start) + time.Duration(c.ahead.Load()))
}

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }
