package soak

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/x402"
)

var fixtureFlag = flag.String("soak.fixture", "", "write a database of the purser in -soak.purser to this folder of testdata")

// fixture is a database that an older purser has written, what it said of it, and the chain as it was then.
type fixture struct {
	Made  time.Time
	Chain past
	Keys  []oldKey
	// Repeat is the body of a POST /v1/pay of the first key that was answered, and Answer what with.
	Repeat string
	Answer paidREST
}

// oldKey is an API key of a fixture. Its wallets own nothing anywhere but on the fixture's chain.
type oldKey struct {
	Secret, Wallet string
	Payments       []payment
	Events         []spent
}

// spent is a spend event as the API shows it.
type spent struct{ ID, Amount, PaymentID string }

// oldConfig is understood by the first purser and all later ones.
const oldConfig = `{
	admin unix/%s|0600
	persist_config off
	storage file_system %s
	servers {
		protocols h1
	}
	purser {
		store bolt
		wallets local
	}
}
http://:%s {
	bind 127.0.0.1
	route {
		purser_proxy
		purser_api
	}
}
http://:%s {
	bind 127.0.0.1
	route {
		metrics /metrics
	}
}
`

// plainly gives a purser the configuration that all of them understand.
func (p *purser) plainly(t *testing.T) {
	t.Helper()
	text := fmt.Sprintf(oldConfig, filepath.Join(p.dir, "admin.sock"), filepath.Join(p.dir, "data"), p.port, p.metrics)
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWriteFixture makes the files of testdata, each with the newest purser of its schema:
//
//	git worktree add /tmp/old COMMIT && (cd /tmp/old && go build -o /tmp/purser-old ./cmd/purser)
//	go test ./e2e/soak -run TestWriteFixture -soak.purser /tmp/purser-old -soak.fixture schema2
//
// where COMMIT is the last one with as many migrations in boltstore/schema.go.
func TestWriteFixture(t *testing.T) {
	if *fixtureFlag == "" {
		t.Skip("only to make new files")
	}
	w := startWorld(t, time.Minute)
	w.calm.Store(true)
	p := newPurser(t, w)
	p.plainly(t)
	p.start(t)
	f := fixture{Made: time.Now().UTC().Truncate(time.Second)}
	var keys []key
	for n := range 3 {
		keys = append(keys, p.newKey(t, w, n))
	}
	l := &load{world: w, purser: p, keys: keys, plain: client(nil, nil, false)}
	for n := range 5 {
		mustDo(t, l.payPayer(t.Context(), 0, uint64(n)))
	}
	f.Repeat = fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":"https://api.example.com/once","idempotencyKey":"upgrade"}`, w.challenge)
	p.must(t, http.MethodPost, "/v1/pay", f.Repeat, &f.Answer, "X-Api-Key", keys[0].secret)
	for n := range 8 { // of every four, one is left without a receipt: open, although the money has moved
		mustDo(t, l.paySeller(t.Context(), 0, uint64(n+1)))
	}
	for n := range 3 { // never sent
		if _, err := l.pay(t.Context(), 1, uint64(100+n), `,"settlement":"seller"`); err != nil {
			t.Fatal(err)
		}
	}
	direct := fmt.Sprintf("http://127.0.0.1:%s/paid?n=", w.http)
	for n := range 12 {
		task := []string{"", "crawl", "night.run"}[n%3]
		mustDo(t, buy(t.Context(), client(p.proxy(keys[1], task), nil, false), direct+fmt.Sprint(n)))
	}
	w.refuse.Store(true) // a payment that the facilitator refuses, at a wallet without funds elsewhere
	if _, err := l.pay(t.Context(), 2, 1, ""); err == nil {
		t.Fatal("not refused")
	}
	w.refuse.Store(false)
	w.calm.Store(false)
	for n := 0; n < 120 && (n < 3 || w.settlements.Load()%100 < 70); n++ { // some that the facilitator leaves open
		_ = l.payPayer(t.Context(), 2, uint64(n))
	}
	for _, k := range keys {
		old := oldKey{Secret: k.secret, Wallet: k.wallet.String()}
		mustDo(t, pages(t.Context(), l, k, "/v1/payments", "payments", func(one payment) string {
			old.Payments = append(old.Payments, one)
			return one.ID
		}))
		mustDo(t, pages(t.Context(), l, k, "/v1/spend", "events", func(e spent) string {
			old.Events = append(old.Events, e)
			return e.ID
		}))
		f.Keys = append(f.Keys, old)
	}
	p.stop(t)
	f.Chain = w.history()
	f.save(t, filepath.Join("testdata", *fixtureFlag), p)
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// save writes the fixture with a compacted database and its master key.
func (f *fixture) save(t *testing.T, folder string, p *purser) {
	t.Helper()
	mustDo(t, os.MkdirAll(folder, 0o750))
	from, err := bbolt.Open(p.file(), 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	mustDo(t, err)
	defer from.Close()
	small := filepath.Join(p.dir, "small.db")
	to, err := bbolt.Open(small, 0o600, nil)
	mustDo(t, err)
	mustDo(t, bbolt.Compact(to, from, 0))
	mustDo(t, to.Close())
	text, err := os.ReadFile(small)
	mustDo(t, err)
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	mustDo(t, err)
	_, err = z.Write(text)
	mustDo(t, err)
	mustDo(t, z.Close())
	mustDo(t, os.WriteFile(filepath.Join(folder, "purser.db.gz"), packed.Bytes(), 0o600))
	secret, err := os.ReadFile(filepath.Join(p.dir, "data", "master.key"))
	mustDo(t, err)
	mustDo(t, os.WriteFile(filepath.Join(folder, "master.key"), secret, 0o600))
	told, err := json.MarshalIndent(f, "", " ")
	mustDo(t, err)
	mustDo(t, os.WriteFile(filepath.Join(folder, "told.json"), append(told, '\n'), 0o600))
}

// readFixture reads one of testdata.
func readFixture(t *testing.T, name string) (f fixture, db, secret []byte) {
	t.Helper()
	folder := filepath.Join("testdata", name)
	text, err := os.ReadFile(filepath.Join(folder, "told.json"))
	mustDo(t, err)
	mustDo(t, json.Unmarshal(text, &f))
	packed, err := os.Open(filepath.Join(folder, "purser.db.gz"))
	mustDo(t, err)
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	mustDo(t, err)
	db, err = io.ReadAll(z)
	mustDo(t, err)
	secret, err = os.ReadFile(filepath.Join(folder, "master.key"))
	mustDo(t, err)
	return f, db, secret
}

// old is today's purser on an older one's database, not started.
func startOld(t *testing.T, name string) (f fixture, l *load) {
	t.Helper()
	f, db, secret := readFixture(t, name)
	chain, err := ledgerOf(f.Chain)
	mustDo(t, err)
	w := startWorldOn(t, chain, time.Minute)
	w.calm.Store(true)
	p := newPurser(t, w)
	p.plainly(t)
	mustDo(t, os.MkdirAll(filepath.Join(p.dir, "data"), 0o700))
	mustDo(t, os.WriteFile(p.file(), db, 0o600))
	mustDo(t, os.WriteFile(filepath.Join(p.dir, "data", "master.key"), secret, 0o600))
	l = &load{world: w, purser: p, plain: client(nil, nil, false)}
	for _, k := range f.Keys {
		wallet, err := x402.ParseAddress(k.Wallet)
		mustDo(t, err)
		l.keys = append(l.keys, key{k.Secret, wallet})
	}
	return f, l
}

// fixtures are the folders of testdata.
func fixtures(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	mustDo(t, err)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) < 3 {
		t.Fatalf("only %v", names)
	}
	return names
}

// A database of each schema before is taken over as it is: payments, spend, repeats, and what was open is closed by what the
// chain says.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l := startOld(t, name)
			l.purser.start(t)
			l.requireTaken(t, f)
			l.purser.stop(t)
			if out, err := l.purser.command(t, "check", "--data-dir", filepath.Join(l.purser.dir, "data")); err != nil {
				t.Errorf("purser check: %v\n%s", err, out)
			}
		})
	}
}

// requireTaken fails unless a running purser knows all that an older one knew, and goes on from there.
func (l *load) requireTaken(t *testing.T, f fixture) {
	t.Helper()
	open := 0
	for i, k := range f.Keys {
		now := map[string]payment{}
		mustDo(t, pages(t.Context(), l, l.keys[i], "/v1/payments", "payments", func(p payment) string {
			now[p.ID] = p
			return p.ID
		}))
		if len(now) != len(k.Payments) {
			t.Errorf("key %d has %d payments, and had %d", i, len(now), len(k.Payments))
		}
		for _, was := range k.Payments {
			if was.State == "open" && !slices.Contains(was.Flags, "refused") {
				open++
			}
			is := now[was.ID]
			if is.Amount != was.Amount || is.PayTo != was.PayTo || was.State == "settled" && (is.State != "settled" || is.Transaction != was.Transaction) {
				t.Errorf("payment %+v is now %+v", was, is)
			}
		}
		var events []spent
		mustDo(t, pages(t.Context(), l, l.keys[i], "/v1/spend", "events", func(e spent) string {
			events = append(events, e)
			return e.ID
		}))
		for _, was := range k.Events {
			if !slices.Contains(events, was) {
				t.Errorf("the spend event %+v is gone", was)
			}
		}
	}
	if open == 0 {
		t.Error("nothing was open")
	}
	l.purser.rest(t, 5*time.Minute, func(state) bool { return l.closed(t) })
	sum, findings := l.audit(t.Context(), l.keys)
	for _, found := range findings {
		t.Error(found)
	}
	t.Logf("%d were open; now %+v", open, sum)
	if sum.Void < 3 || sum.Settled == 0 {
		t.Errorf("%+v", sum)
	}

	// The same request once more. What it is recognized by is forgotten after 30 days.
	var again paidREST
	l.purser.must(t, http.MethodPost, "/v1/pay", f.Repeat, &again, "X-Api-Key", f.Keys[0].Secret)
	if young := time.Since(f.Made) < 29*24*time.Hour; young != (again == f.Answer) && (young || time.Since(f.Made) > 32*24*time.Hour) {
		t.Errorf("the repeat of a request is answered with %s, it was %s", again.Payment.ID, f.Answer.Payment.ID)
	}
	mustDo(t, l.payPayer(t.Context(), 1, 1))
}

// A migration that is killed goes on where it was, or begins anew, as often as that happens.
func TestUpgradeIsKilled(t *testing.T) {
	t.Parallel()
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l := startOld(t, name)
			p := l.purser
			for n := range 12 { // a start takes a few hundred milliseconds, the migration a few of them
				p.launch(t)
				changed := p.awaitsChange(t)
				time.Sleep(time.Duration(n) * 300 * time.Microsecond)
				_ = p.cmd.Process.Kill()
				<-p.done
				if !changed {
					break // it has been through
				}
			}
			p.start(t)
			l.requireTaken(t, f)
			p.stop(t)
			if out, err := p.command(t, "check", "--data-dir", filepath.Join(p.dir, "data")); err != nil {
				t.Errorf("purser check: %v\n%s", err, out)
			}
		})
	}
}

// awaitsChange waits until the database file is written to, or purser answers.
func (p *purser) awaitsChange(t *testing.T) bool {
	t.Helper()
	before, err := os.Stat(p.file())
	mustDo(t, err)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		now, err := os.Stat(p.file())
		mustDo(t, err)
		if now.ModTime() != before.ModTime() || now.Size() != before.Size() {
			return true
		}
	}
	return false
}

// A database of a purser that is newer than this one is left alone, and the message says what to do.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	_, l := startOld(t, fixtures(t)[0])
	p := l.purser
	db, err := bbolt.Open(p.file(), 0o600, nil)
	mustDo(t, err)
	mustDo(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("4711")) }))
	mustDo(t, db.Close())
	before, err := os.ReadFile(p.file())
	mustDo(t, err)
	p.launch(t)
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Fatal("it runs")
	}
	if code := p.cmd.ProcessState.ExitCode(); code == 0 {
		t.Error("exit status 0")
	}
	for _, word := range []string{"schema", "4711", "newer"} {
		if !strings.Contains(p.said.String(), word) {
			t.Errorf("no %q in %s", word, p.said)
		}
	}
	if after, err := os.ReadFile(p.file()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v", err)
	}
}
