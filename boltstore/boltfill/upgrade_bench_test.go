//go:build unix

package boltfill

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// BenchmarkUpgrade measures how long the first start of this purser takes on a long history
// that one with schema 4 has written, whose spend is not summed up.
func BenchmarkUpgrade(b *testing.B) {
	path := filepath.Join(b.TempDir(), "purser.db")
	db, keys := opened(b, path, 3)
	if err := Fill(b.Context(), db, Options{Keys: keys, Payments: *events}); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	var processor time.Duration
	for b.Loop() {
		b.StopTimer()
		downgrade(b, path)
		before := processorTime(b)
		b.StartTimer()
		db, _ := opened(b, path, 0)
		b.StopTimer()
		processor += processorTime(b) - before
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(processor.Seconds()/float64(b.N), "cpu-s/op")
}

// downgrade takes away what schema 5 has of spend.
func downgrade(t testing.TB, path string) {
	t.Helper()
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = file.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"spend_by_host", "spend_days"} {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("4"))
	})
	if err != nil {
		t.Fatal(err)
	}
}
