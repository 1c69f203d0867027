//go:build unix

package boltfill

import (
	"flag"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

var events = flag.Int("boltfill.events", 100_000, "payments of the organization that BenchmarkOrganization reads")

// BenchmarkOrganization measures the questions of a dashboard to a store with a long history, for
// an organization with few keys and one with many:
//
//	go test ./boltstore/boltfill -run xxx -bench Organization -boltfill.events 1000000
func BenchmarkOrganization(b *testing.B) {
	for _, keys := range []int{3, 150} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			db, ids := opened(b, filepath.Join(b.TempDir(), "purser.db"), keys)
			to := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
			began := time.Now()
			if err := Fill(b.Context(), db, Options{Keys: ids, Payments: *events, To: to}); err != nil {
				b.Fatal(err)
			}
			b.Logf("%d payments of %d keys written in %s", *events, keys, time.Since(began).Round(time.Second))
			from := to.AddDate(0, 0, -30)
			middle := to.AddDate(0, 0, -15)
			half, err := db.ListSpend(b.Context(), ids, pay.OrganizationSpendQuery{To: middle, Limit: 1})
			if err != nil || len(half.Entries) != 1 {
				b.Fatal(half, err)
			}
			measure := func(name string, ask func() error) {
				b.Run(name, func(b *testing.B) {
					if err := ask(); err != nil { // warm
						b.Fatal(err)
					}
					before := processorTime(b)
					n := 0
					for b.Loop() {
						n++
						if err := ask(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(n), "cpu-ms/op")
				})
			}
			measure("summary", func() error {
				s, err := db.SpendSummary(b.Context(), ids, from, to)
				if err == nil && s.Total().Count != *events {
					err = fmt.Errorf("%d payments are summed up", s.Total().Count)
				}
				return err
			})
			for name, q := range map[string]pay.OrganizationSpendQuery{
				"first page": {}, "page of 500": {Limit: 500}, "page in the middle": {Before: half.Entries[0].ID},
				"by host": {Host: "api-0.example.com"}, "by rare host": {Host: "api-11.example.com"}, "by task": {Task: "task-3"},
				"by host and task": {Host: "api-11.example.com", Task: "task-6"}, "by day": {From: middle, To: middle},
				"by host and day": {Host: "api-11.example.com", From: middle, To: middle}, "by an unknown host": {Host: "x.example"},
				"by one key": {KeyID: ids[len(ids)-1]},
			} {
				if q.Limit == 0 {
					q.Limit = 50
				}
				of := ids
				if q.KeyID != "" {
					of = []string{q.KeyID}
				}
				measure(name, func() error {
					_, err := db.ListSpend(b.Context(), of, q)
					return err
				})
			}
			measure("payments", func() error { _, err := db.PaymentsOf(b.Context(), ids, "", 50); return err })
			measure("disputed payments", func() error { _, err := db.PaymentsOf(b.Context(), ids, "disputed", 50); return err })
		})
	}
}

// processorTime returns the processor time of this process: other work on the machine does not
// count.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
