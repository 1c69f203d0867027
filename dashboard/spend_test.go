package dashboard_test

import (
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore/boltfill"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// spenders returns a visitor with two keys and 120 events over three days from first on, at two
// hosts and for two tasks.
func spenders(t *testing.T, w *world) (ada *person, second pay.Key, from time.Time) {
	t.Helper()
	ada = w.person("ada")
	second, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "=1+1", OrganizationID: ada.account.OrganizationID})
	if err != nil {
		t.Fatal(err)
	}
	keys := []pay.Key{ada.key, second}
	w.wallet(keys[0], 900_000_000)
	w.wallet(keys[1], 900_000_000)
	from = pay.DayOf(time.Now()).AddDate(0, 0, -3)
	base := from.Add(time.Hour)
	for i := range 120 {
		w.clock.set(base.Add(time.Duration(i) * 25 * time.Minute)) // 50 hours
		host := []string{"api.example.com", "other.example.net:8443"}[i%3%2]
		w.buy(keys[i%2], fmt.Sprintf("https://%s/item?n=%d", host, i), []string{"nightly", "demo", ""}[i%3], fmt.Sprint(10000+i))
	}
	w.clock.set(time.Now())
	return ada, second, from
}

var (
	older = regexp.MustCompile(`<a class="button" href="([^"]+)" rel="next">`)
	item  = regexp.MustCompile(`title="[^"]+/item\?n=(\d+)"`)
)

func TestSpendIsFilteredAndPaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, second, base := spenders(t, w)
	day := func(n int) string { return base.AddDate(0, 0, n).Format("2006-01-02") }
	for query, want := range map[string]func(i int) bool{
		"":                                 func(int) bool { return true },
		"key=" + second.ID:                 func(i int) bool { return i%2 == 1 },
		"host=api.example.com":             func(i int) bool { return i%3 != 1 },
		"host=+HTTPS://API.example.com/x":  func(i int) bool { return i%3 != 1 },
		"host=other.example.net:8443":      func(i int) bool { return i%3 == 1 },
		"host=nowhere":                     func(int) bool { return false },
		"task=demo":                        func(i int) bool { return i%3 == 1 },
		"to=" + day(0):                     func(i int) bool { return i < 56 }, // 23 hours of 25 minutes
		"from=" + day(1) + "&to=" + day(1): func(i int) bool { return i >= 56 && i < 113 },
		"from=" + day(1) + "&task=nightly&key=" + second.ID + "&host=api.example.com": func(i int) bool { return i >= 56 && i%3 == 0 && i%2 == 1 },
	} {
		var wanted, got []int
		for i := range 120 {
			if want(i) {
				wanted = append(wanted, i)
			}
		}
		for path := "/dashboard/spend?" + query; path != "" && len(got) <= 120; {
			page := ada.get(path).is(200)
			for _, m := range item.FindAllStringSubmatch(page.body, -1) {
				n, _ := strconv.Atoi(m[1])
				got = append(got, n)
			}
			path = ""
			if m := older.FindStringSubmatch(page.body); m != nil {
				path = html.UnescapeString(m[1])
			}
		}
		slices.Reverse(got) // the newest came first
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: events %v, want %v", query, got, wanted)
		}
		rows := readCSV(t, ada.get("/dashboard/spend.csv?"+query).is(200))
		if len(rows) != len(wanted)+1 {
			t.Errorf("%s: %d rows of CSV, want %d", query, len(rows)-1, len(wanted))
		}
	}
	ada.get("/dashboard/spend?host=nowhere").is(200, "Nothing matches the filter", "Show all")
}

func readCSV(t *testing.T, s seen) [][]string {
	t.Helper()
	if !strings.HasPrefix(s.header.Get("Content-Type"), "text/csv") || !strings.HasPrefix(s.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("header of the export: %v", s.header)
	}
	rows, err := csv.NewReader(strings.NewReader(s.body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, second, _ := spenders(t, w)
	w.clock.advance(time.Second)
	hostile := "https://api.example.com/x?q=" + url.QueryEscape("=cmd|' /C calc'!A0")
	last := w.buy(second, hostile, "-1", "700000123")
	rows := readCSV(t, ada.get("/dashboard/spend.csv").is(200))
	if len(rows) != 122 {
		t.Fatalf("%d rows", len(rows))
	}
	field := map[string]string{}
	for i, name := range rows[0] {
		field[name] = rows[1][i]
	}
	for name, want := range map[string]string{
		"amount": "700.000123", "currency": "USDC", "host": "api.example.com", "request_url": hostile, "task": "'-1", "key_label": "'=1+1",
		"created_at": last.Created.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		"key_id":     second.ID, "payment_id": last.ID, "network": "base", "settlement": "payer", "transaction": last.Transaction, "corrects": "",
	} {
		if field[name] != want {
			t.Errorf("%s is %q, want %q", name, field[name], want)
		}
	}
	ada.get("/dashboard/spend.csv?from=yesterday").is(http.StatusBadRequest)
	ada.get("/dashboard/spend.csv?task=a%20b").is(http.StatusBadRequest)
}

func TestWhatDoesNotFitAFilterIsNamedBesideIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, _, _ := spenders(t, w)
	for query, part := range map[string]string{
		"task=a+b%3Cscript%3E": `id="task-wrong"`, "from=31.1.2026": `id="from-wrong"`, "to=2026-02-30": `id="to-wrong"`, "from=2026-02-02&to=2026-02-01": `id="to-wrong"`,
		"from=0001-01-01": `id="from-wrong"`, "to=99999-01-01": `id="to-wrong"`,
	} {
		ada.get("/dashboard/spend?"+query).is(http.StatusUnprocessableEntity, part).without("<script>alert", "b<script>")
	}
	ada.get("/dashboard/spend?host=%22%3E%3Cscript%3Ealert(1)%3C/script%3E").is(200).without("<script>alert")
}

func TestCorrectionsAreShownAsSuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	bought := w.buy(ada.key, "https://api.example.com/report", "demo", "30000")
	w.chain.set(func(l *ledger) { l.amnesia = true })
	w.until("disputed", bought.ID)
	body := ada.get("/dashboard/spend").is(200, "Correction", "Disputed, taken back", `−0<span class="frac">.03</span>`, "/dashboard/payments/"+bought.ID).body
	if strings.Count(body, "https://basescan.org/tx/"+bought.Transaction) != 1 {
		t.Error("the event's transaction is not linked once")
	}
	ada.get("/dashboard/").is(200, "Payments that need attention", "Disputed.", `>0<span class="frac"></span> <span class="unit">USDC`)
	ada.get("/dashboard/payments/"+bought.ID).is(200, "the chain has no such transfer", bought.Transaction)
	ada.get("/dashboard/payments?state=disputed").is(200, bought.ID)
	rows := readCSV(t, ada.get("/dashboard/spend.csv").is(200))
	if len(rows) != 3 || rows[1][2] != "-0.03" || rows[2][2] != "0.03" || rows[1][10] != rows[2][0] {
		t.Errorf("rows: %q", rows)
	}
}

// until runs recovery until a payment has a label.
func (w *world) until(label, id string) {
	w.t.Helper()
	for n := range 1000 {
		if n > 50 { // a payment's end is written a moment after its answer
			time.Sleep(5 * time.Millisecond)
		}
		w.clock.advance(time.Minute)
		if _, err := w.payer.RecoverOnce(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		p, err := w.store.Payment(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		if slices.Contains(p.Labels(), label) {
			return
		}
	}
	w.t.Fatalf("payment %s is never %s", id, label)
}

func TestExportGoesOnToTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onDisk(t))
	ada := w.person("ada")
	if err := boltfill.Fill(t.Context(), w.disk, boltfill.Options{Keys: []string{ada.key.ID}, Payments: 1234, To: w.clock.now()}); err != nil {
		t.Fatal(err)
	}
	ids, payments := map[string]bool{}, 0
	for _, row := range readCSV(t, ada.get("/dashboard/spend.csv").is(200))[1:] {
		if ids[row[0]] {
			t.Fatalf("event %s twice", row[0])
		}
		if ids[row[0]] = true; row[10] == "" {
			payments++
		}
	}
	if payments != 1234 {
		t.Errorf("%d payments in the export", payments)
	}
}

// beginExport requests a long export and reads nothing of the answer.
func (p *person) beginExport(t *testing.T, w *world) *http.Response {
	t.Helper()
	if err := boltfill.Fill(t.Context(), w.disk, boltfill.Options{Keys: []string{p.key.ID}, Payments: 20_000, To: w.clock.now()}); err != nil {
		t.Fatal(err)
	}
	return p.request(http.MethodGet, "/dashboard/spend.csv", nil)
}

// An export ends with its session, and with the store. It is cut off, so that it does not look complete.
func TestAnExportIsCutOff(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*person) error{
		"signed out":            func(p *person) error { return p.books.DeleteSession(t.Context(), p.session) },
		"signed out everywhere": func(p *person) error { _, err := p.books.EndSessions(t.Context(), p.account.ID); return err },
		"the store is closed":   func(p *person) error { return p.store.Close() },
	} {
		w := newWorld(t, onDisk(t))
		ada := w.person("ada")
		res := ada.beginExport(t, w)
		if _, err := io.ReadFull(res.Body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if err := end(ada); err != nil {
			t.Fatal(err)
		}
		_, err := io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err == nil {
			t.Errorf("%s: the export ended as if it were whole", name)
		}
	}
}
