package boltstore

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// TestRoomOfAPayment measures the pages that settled and retired payments take. The budget of a
// payment is 1.3 kB of file; free pages and the steps in which the file grows come on top.
func TestRoomOfAPayment(t *testing.T) {
	t.Parallel()
	const payments, budget = 3000, 1300
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	key, wallet := newID(), newID()
	for i := range payments {
		b := call(key)
		b.New.WalletID, b.New.Created = wallet, noon.Add(time.Duration(i)*time.Second)
		begun, err := d.Begin(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		settled := settlement(begun.Payment)
		settled.Transaction = fmt.Sprintf("0x%x", pay.HashOf(b.New.ID))
		if _, _, err := d.Record(t.Context(), settled); err != nil {
			t.Fatal(err)
		}
		p, err := d.Acquire(t.Context(), b.New.ID, "node", noon, noon.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		retired := pay.Outcome{PaymentID: p.ID, Fence: p.Lease.Fence, At: noon, Verdict: pay.VerdictConfirmed, Retire: true, Release: true, Answered: true}
		if _, _, err := d.Record(t.Context(), retired); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, d)
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		total, parts := 0, ""
		for _, name := range allBuckets {
			s := tx.Bucket(name).Stats()
			bytes := s.LeafAlloc + s.BranchAlloc
			if total += bytes; s.KeyN >= payments {
				parts += fmt.Sprintf("\n%s: %d", name, bytes/payments)
			}
		}
		if total/payments > budget {
			t.Errorf("a payment takes %d bytes:%s", total/payments, parts)
		}
		return nil
	})
}
