package boltfill

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// What is written adds up, and purser check finds nothing wrong with it. Nothing is written twice, or without keys or payments.
func TestFill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "purser.db")
	db, err := boltstore.Open(t.Context(), boltstore.Options{Path: path, MasterKey: vault.Given(vault.MasterKey{1})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var keys []string
	for _, id := range []string{"key-1", "key-2", "key-3"} {
		if _, err := db.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: id}, Secret: "pk_secret-" + id}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, id)
	}
	o := Options{Keys: keys, Payments: perWrite + 300, To: time.Date(2026, 11, 20, 23, 30, 0, 0, time.UTC)}
	if err := Fill(t.Context(), db, o); err != nil {
		t.Fatal(err)
	}
	s, err := db.SpendSummary(t.Context(), keys, o.To.AddDate(0, 0, -30), o.To)
	if err != nil || s.Total().Count != o.Payments || s.Total().Corrected.IsZero() || len(s.Hosts) != hosts || len(s.Tasks) != tasks+1 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, d := range s.Days {
		if d.Count < o.Payments/40 {
			t.Errorf("%d payments on %s", d.Count, d.Day)
		}
	}
	for _, wrong := range []Options{o, {Payments: 1}, {Keys: keys}} {
		if err := Fill(t.Context(), db, wrong); err == nil {
			t.Errorf("%+v is filled", wrong)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := boltstore.CheckFile(t.Context(), path, vault.Given(vault.MasterKey{1}))
	if err != nil || r.Err() != nil || r.Events != o.Payments+o.Payments/1000 || r.Labels["disputed"] != o.Payments/1000 {
		t.Errorf("%+v, %v", r, err)
	}
}
