package boltstore

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// fixture is of this schema, and the others are of those that are read, too.
const fixture, fixture10, fixture11, fixture12 = "testdata/store.db.gz", "testdata/store-10.db.gz", "testdata/store-11.db.gz", "testdata/store-12.db.gz"

var update = flag.Bool("update", false, "write "+fixture+" anew, for a schema that was raised")

// TestSchema opens a store that a purser of this schema has written, and finds every row by every
// index. If it fails, the layout has changed: raise the schema, and write the fixture anew with
//
//	go test ./boltstore -run TestSchema -update
func TestSchema(t *testing.T) {
	t.Parallel()
	if *update {
		writeFixture(t)
	}
	for file, number := range map[string]int{fixture: schema, fixture10: oldestSchema, fixture11: 11, fixture12: 12} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			findEverything(t, file, number)
		})
	}
}

// findEverything opens a store of a schema.
func findEverything(t *testing.T, file string, number int) {
	t.Helper()
	o := inFolder(t.TempDir())
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Path, text, fileMode); err != nil {
		t.Fatal(err)
	}
	r := sound(t, o.Path) // compares every index entry, counter and sum with the rows
	wantLabels := map[string]int{
		"open": 4, "settled": 4, "void": 1, "refused": 1, "unresolved": 1, "confirmed": 1, "disputed": 1, "reconciled": 1,
	}
	if r.Schema != number || r.Keys != 4 || r.Wallets != 4 || r.Payments != 9 || r.Events != 5 || !maps.Equal(r.Labels, wantLabels) {
		t.Errorf("the fixture has %+v", r)
	}
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		for _, name := range allBuckets {
			if k, _ := tx.Bucket(name).Cursor().First(); k == nil {
				t.Errorf("the fixture has nothing in %s", name)
			}
		}
		return nil
	})

	d := openIn(t, o)
	ctx := t.Context()
	k, err := d.KeyBySecret(ctx, "pk_secret-1")
	if err != nil || k.ID != "k1" || k.OrganizationID != "org" || k.PolicyRevision != 1 {
		t.Errorf("key %+v, %v", k, err)
	}
	if secret, err := d.RevealKey(ctx, "k1"); err != nil || secret != "pk_secret-1" {
		t.Errorf("revealed %q, %v", secret, err)
	}
	if secret, err := d.WalletSecret(ctx, "livek0"); err != nil || string(secret) != "wallet key" {
		t.Errorf("wallet key %q, %v", secret, err)
	}
	if s, err := d.Session(ctx, session(1).ID); err != nil || !bytes.Equal(s.Data, session(1).Data) {
		t.Errorf("session %+v, %v", s, err)
	}
	a, first, err := d.Enroll(ctx, enrollment("ada"))
	if err != nil || first || a.Name != "Ada Lovelace" {
		t.Errorf("account %+v, first %t, %v", a, first, err)
	}
	events, err := d.SpendEvents(ctx, "k0", pay.SpendQuery{Task: "crawl", Limit: 10})
	if err != nil || len(events) != 4 {
		t.Errorf("%d events of the task, %v", len(events), err)
	}
	s, err := d.SpendSummary(ctx, []string{"k0"}, noon, noon)
	if err != nil || s.Total().Count != 4 || s.Total().Amount.String() != "20" || s.Total().Corrected.String() != "5" {
		t.Errorf("the day's sums are %+v, %v", s.Total(), err)
	}
	p, err := d.AllPayments(ctx, pay.LabelQuery{Label: "reconciled", Limit: 10})
	if err != nil || len(p) != 1 || p[0].Transaction != transaction(1001) {
		t.Errorf("reconciled: %+v, %v", p, err)
	}
	entries, err := d.AuditEntries(ctx, pay.AuditQuery{KeyID: "k2", Limit: 10})
	if err != nil || len(entries) != 1 || entries[0].Number != 1 {
		t.Errorf("audit %+v, %v", entries, err)
	}
	begun(t, d, "k0")
	checked(t, d)
}

// writeFixture makes a store with something in every bucket, without the free space that an open
// store has.
func writeFixture(t *testing.T) {
	t.Helper()
	o := filled(t)
	if err := (&Copy{path: o.Path}).complete(&Mark{At: noon}); err != nil {
		t.Fatal(err)
	}
	d := openIn(t, at(o, noon.Add(time.Hour)))
	mustReconcile(t, d, 7, 1, foundOn("k0", 1))
	if err := d.EndReconciling(t.Context(), noon.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateKey(byOperator(t), pay.NewKey{Key: pay.Key{ID: "k2"}, Secret: "pk_secret-2"}); err != nil {
		t.Fatal(err)
	}
	enrolled(t, d, "ada")
	putSessions(t, d, 1, 2)
	begun(t, d, "k0")
	if err := d.AddNotices(t.Context(), []pay.Notice{{At: noon, Kind: pay.NoticePaused, Once: "paused"}}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetDelivery(t.Context(), pay.Delivery{Destination: "hooks", Cursor: 1}); err != nil {
		t.Fatal(err)
	}
	held(t, d, "k0")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Compact(context.Background(), o.Path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(text)
	if err := errors.Join(err, z.Close(), os.MkdirAll("testdata", 0o755), os.WriteFile(fixture, packed.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}
