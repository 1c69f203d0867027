package boltfill

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

func opened(t testing.TB, path string, keys int) (db *boltstore.DB, ids []string) {
	t.Helper()
	db, err := boltstore.Open(t.Context(), boltstore.Options{Path: path, MasterKey: vault.Given(vault.MasterKey{1})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for i := range keys {
		k := pay.Key{ID: fmt.Sprintf("key-%03d", i)}
		if _, err := db.CreateKey(t.Context(), pay.NewKey{Key: k, Secret: fmt.Sprintf("pk_secret-%d", i)}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, k.ID)
	}
	return db, ids
}

// What is written adds up, and purser check finds nothing wrong with it.
func TestFill(t *testing.T) {
	t.Parallel()
	for _, payloads := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "purser.db")
		db, keys := opened(t, path, 3)
		to := time.Date(2026, 11, 20, 23, 30, 0, 0, time.UTC)
		const many = 2300
		if err := Fill(t.Context(), db, Options{Keys: keys, Payments: many, To: to, Payloads: payloads, perWrite: 1000}); err != nil {
			t.Fatal(err)
		}
		s, err := db.SpendSummary(t.Context(), keys, to.AddDate(0, 0, -30), to)
		if err != nil || s.Total().Count != many || s.Total().Corrected.IsZero() || len(s.Hosts) != 12 || len(s.Tasks) != 7 {
			t.Errorf("%+v, %v", s, err)
		}
		for _, d := range s.Days {
			if d.Count < many/40 {
				t.Errorf("%d payments on %s", d.Count, d.Day)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := boltstore.CheckFile(t.Context(), path, vault.Given(vault.MasterKey{1}))
		if err != nil || r.Err() != nil || r.Events != many+2 || r.Labels["disputed"] != 2 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestFillRefuses(t *testing.T) {
	t.Parallel()
	db, keys := opened(t, filepath.Join(t.TempDir(), "purser.db"), 1)
	now := time.Now()
	for _, o := range []Options{{Payments: 1}, {Keys: keys}, {Keys: keys, Payments: 1, From: now, To: now}} {
		if err := Fill(t.Context(), db, o); err == nil {
			t.Errorf("%+v is filled", o)
		}
	}
	if err := Fill(t.Context(), db, Options{Keys: keys, Payments: 10, Seed: 7, To: now}); err != nil {
		t.Fatal(err)
	}
	if err := Fill(t.Context(), db, Options{Keys: keys, Payments: 10, Seed: 7, To: now}); err == nil {
		t.Error("the same payments are written twice")
	}
}
