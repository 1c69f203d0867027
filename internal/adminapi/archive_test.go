package adminapi_test

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer"
)

const aDay = 24 * time.Hour

// archives decodes an archive of JSON lines.
func (w *world) archives(text string) (list []adminapi.ArchivedPayment) {
	w.t.Helper()
	for line := range strings.Lines(text) {
		list = append(list, decode[adminapi.ArchivedPayment](w, line))
	}
	return list
}

// pastDay returns the day a number of days ago, as a flag takes it.
func pastDay(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }

// The archive has closed payments with their events, oldest first, in both formats.
func TestArchive(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.behind.Store(int64(10 * aDay))
	old := w.buys(k, 1_500_000, "https://api.example.com/x?token=t0ken")
	w.behind.Store(int64(5 * aDay))
	disputed := w.buys(k, 250_000, "https://b.example/=1+1")
	w.behind.Store(0)
	open := w.leaves(k, time.Hour)[0]
	fresh := w.buys(k, 10_000, "https://api.example.com/z")
	held, err := w.store.Acquire(t.Context(), disputed, "test", time.Now(), time.Now().Add(time.Minute))
	w.must(err)
	_, _, err = w.store.Record(t.Context(), pay.Outcome{
		PaymentID: disputed, Fence: held.Lease.Fence, At: time.Now(), Verdict: pay.VerdictDisputed, Release: true,
		EventID: "ffffffff-0000-7000-8000-000000000000",
	})
	w.must(err)

	status, text := w.send("GET", "/archive", "", "")
	list := w.archives(text)
	if status != http.StatusOK || len(list) != 3 {
		t.Fatalf("%d %s", status, text)
	}
	for i, want := range []struct {
		id     string
		events string
		flags  string
	}{{old, "1500000", "[]"}, {disputed, "250000 -250000", "[disputed]"}, {fresh, "10000", "[]"}} {
		var events []string
		for _, e := range list[i].Spend {
			events = append(events, e.Amount)
		}
		if p := list[i]; p.ID != want.id || strings.Join(events, " ") != want.events || fmt.Sprint(p.Flags) != want.flags ||
			p.State != pay.Settled || p.KeyID != k.ID || p.Nonce == "" || p.Closed.IsZero() {
			t.Errorf("%d: %+v", i, p)
		}
	}
	if strings.Contains(text, "t0ken") || strings.Contains(text, open) || list[0].RequestURL != "https://api.example.com/x" {
		t.Errorf("a seller's key, or an open payment: %s", text)
	}
	for path, want := range map[string]int{
		"/archive?before=" + pastDay(4): 2, "/archive?before=" + pastDay(7): 1, "/archive?before=" + pastDay(20): 0,
	} {
		if _, text := w.send("GET", path, "", ""); len(w.archives(text)) != want {
			t.Errorf("%s: %s", path, text)
		}
	}
	w.answers(
		request{"GET", "/archive?before=yesterday", "", 400, "before: a day"},
		request{"POST", "/archive", "{}", 405, "method not allowed"},
	)

	// The command.
	same := func(got string, want int, line string) {
		t.Helper()
		if n := len(w.archives(got)); n != want {
			t.Errorf("%s: %d payments, want %d: %s", line, n, want, got)
		}
	}
	for line, want := range map[string]int{
		"archive": 3, "archive --older 4d": 2, "archive --older 7d": 1, "archive --before " + pastDay(4): 2,
		"archive --format jsonl --older 0d": 2, "archive --before " + pastDay(-1): 3,
	} {
		same(w.command(line).Stdout, want, line)
	}
	dir := t.TempDir()
	run := func(line string) clitest.Outcome {
		t.Helper()
		return clitest.Line{Dir: dir, Environ: []string{"PURSER_ADMIN=unix/" + w.socket}}.Run(t, strings.Fields(line)...)
	}
	if o := run("archive all.jsonl"); o.Status != 0 || !strings.Contains(o.Stdout, "all.jsonl: 3 payments, 1.51 USDC spent") {
		t.Fatalf("%+v", o)
	}
	same(clitest.ReadText(t, dir, "all.jsonl"), 3, "all.jsonl")
	if o := run("archive --older 4d old.CSV"); o.Status != 0 {
		t.Fatalf("%+v", o)
	}
	rows, err := csv.NewReader(strings.NewReader(clitest.ReadText(t, dir, "old.CSV"))).ReadAll()
	w.must(err)
	if len(rows) != 3 || len(rows[0]) != len(rows[1]) {
		t.Fatalf("%q", rows)
	}
	cell := func(row int, name string) string {
		for i, field := range rows[0] {
			if field == name {
				return rows[row][i]
			}
		}
		return "no column " + name
	}
	for name, want := range map[string]string{
		"payment_id": old, "amount": "1.5", "currency": "USDC", "state": "settled", "host": "api.example.com", "network": "base",
		"request_url": "https://api.example.com/x", "spend_id": list[0].Spend[0].ID, "correction_id": "", "key_id": k.ID,
	} {
		if got := cell(1, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if cell(2, "correction_id") != list[1].Spend[1].ID || cell(2, "corrected_at") == "" || cell(2, "flags") != "disputed" {
		t.Errorf("%q", rows[2])
	}
	if o := run("archive all.jsonl"); o.Status != 1 || !strings.Contains(o.Stderr, "--force replaces it") {
		t.Errorf("%+v", o)
	}
	if o := run("archive --force --before " + pastDay(20) + " all.jsonl"); o.Status != 0 || clitest.ReadText(t, dir, "all.jsonl") != "" {
		t.Errorf("%+v", o)
	}
	if list := clitest.Written(t, dir); list != "all.jsonl old.CSV" {
		t.Errorf("left %q", list)
	}
	if info, err := os.Stat(filepath.Join(dir, "old.CSV")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	w.fails(map[string]string{
		"archive --older 1d --before 2026-01-01": "not both", "archive --older soon": "--older", "archive --older 2026-01-01": "--older",
		"archive --before soon": "--before", "archive --format xml": "neither csv nor jsonl", "archive a b": "takes [FILE]",
	})
}

// paged is a store whose lists of closed payments have pages of two. It fails at one of them, or
// begins again after each.
type paged struct {
	pay.Store
	pages, failAt atomic.Int64
	endless       bool
}

func (s *paged) ClosedPayments(ctx context.Context, q pay.ClosedQuery) (pay.ClosedPage, error) {
	if s.pages.Add(1) == s.failAt.Load() {
		return pay.ClosedPage{}, errors.New("the disk is gone")
	}
	if q.Limit = 2; s.endless {
		q.After = ""
	}
	page, err := s.Store.ClosedPayments(ctx, q)
	if s.endless {
		page.Next = "on"
	}
	return page, err
}

// pages makes the API read closed payments from another store. No request may be under way.
func (w *world) pages(s *paged) *paged {
	w.t.Helper()
	s.Store = w.store
	kept, err := books.New(books.Options{Store: s, Wallets: signer.NewLocal(w.store)})
	w.must(err)
	w.Books = kept
	return s
}

// An archive that is cut off is none.
func TestArchiveInPages(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	for i := range 5 {
		w.buys(k, 1000, fmt.Sprint("https://api.example.com/", i))
	}
	s := w.pages(new(paged))
	if list := w.archives(w.command("archive").Stdout); len(list) != 5 || s.pages.Load() != 3 {
		t.Fatalf("%d payments in %d pages", len(list), s.pages.Load())
	}
	dir := t.TempDir()
	fails := func(at int) {
		s.pages.Store(0)
		s.failAt.Store(int64(at))
	}
	for failAt, part := range map[int]string{1: "the disk is gone", 2: "cut off after 2 payments", 3: "cut off after 4 payments"} {
		fails(failAt)
		o := clitest.Line{Dir: dir, Environ: []string{"PURSER_ADMIN=unix/" + w.socket}}.Run(t, "archive", "all.csv")
		if o.Status != 1 || o.Stdout != "" || !strings.Contains(o.Stderr, part) || strings.Count(o.Stderr, "\n") != 1 {
			t.Errorf("page %d: %+v", failAt, o)
		}
		fails(failAt)
		if o := w.command("archive"); o.Status != 1 || len(w.archives(o.Stdout)) != 2*(failAt-1) {
			t.Errorf("page %d: %+v", failAt, o)
		}
	}
	if list := clitest.Written(t, dir); list != "" {
		t.Errorf("left %q", list)
	}
	if log := w.log.String(); !strings.Contains(log, "archive cut off") {
		t.Error(log)
	}
}

// A client that leaves ends its archive, and is not counted in for longer.
func TestArchiveOfAClientThatLeaves(t *testing.T) {
	w := newWorld(t)
	w.buys(w.key("research"), 1000, "https://api.example.com/x")
	w.pages(&paged{endless: true})
	var inside atomic.Int64
	w.Enter, w.Leave = func() error { inside.Add(1); return nil }, func() { inside.Add(-1) }
	h := &adminapi.Handler{Serving: func() *adminapi.Purser { return w.Purser }, Host: func() string { return "" }}
	mux, ended := h.Mux(), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		defer close(ended)
		mux.ServeHTTP(to, r)
	}))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/purser/archive", nil)
	w.must(err)
	resp, err := http.DefaultClient.Do(r)
	w.must(err)
	lines := bufio.NewScanner(resp.Body)
	for range 3 {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
	}
	leave()
	_ = resp.Body.Close()
	<-ended
	if n := inside.Load(); n != 0 {
		t.Errorf("counted in %d times", n)
	}
}
