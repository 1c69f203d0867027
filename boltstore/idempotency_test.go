package boltstore

import (
	"testing"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// order is a call under an idempotency key.
func order(keyID string) *pay.Begin {
	b := call(keyID)
	b.IdempotencyKey, b.New.IdempotencyKey = "order 1", "order 1"
	b.Fingerprint = pay.HashOf("order 1")
	b.New.Fingerprint = b.Fingerprint
	return b
}

// unreadable damages rows of payments. Reading one of them fails.
func unreadable(t *testing.T, path string, ids []string) {
	t.Helper()
	inside(t, path, func(tx *bbolt.Tx) error {
		for _, id := range ids {
			if err := tx.Bucket(paymentsBucket).Put([]byte(id), []byte("damaged")); err != nil {
				return err
			}
		}
		return nil
	})
}

// The committer reads none of the attempts that are dead, however many there are: here it could
// not.
func TestDeadAttemptsAreNotRead(t *testing.T) {
	t.Parallel()
	const dead = 50
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	var ids []string
	for i := range dead {
		b, err := d.Begin(t.Context(), order("k"))
		if err != nil || b.How != pay.Created {
			t.Fatalf("attempt %d: %v, %v", i, b.How, err)
		}
		verdicts := []pay.Verdict{pay.VerdictVoid}
		if i%2 == 0 {
			verdicts = []pay.Verdict{pay.VerdictRefused, pay.VerdictRefusedExpired} // and no doubt about it any more
		}
		for n, v := range verdicts {
			out := pay.Outcome{PaymentID: b.Payment.ID, Fence: 1, At: noon, Verdict: v, Release: n == len(verdicts)-1}
			if _, _, err := d.Record(t.Context(), out); err != nil {
				t.Fatal(err)
			}
		}
		ids = append(ids, b.Payment.ID)
	}
	checked(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	unreadable(t, o.Path, ids)
	d = openIn(t, o)
	next, err := d.Begin(t.Context(), order("k"))
	if err != nil || next.How != pay.Created || next.Payment.Attempt != dead+1 {
		t.Fatalf("%v, attempt %+v, %v", next.How, next.Payment, err)
	}
	if _, _, err := d.Record(t.Context(), settlement(next.Payment)); err != nil {
		t.Fatal(err)
	}
	again, err := d.Begin(t.Context(), order("k"))
	if err != nil || again.How != pay.Stored || again.Payment.ID != next.Payment.ID {
		t.Errorf("a repeat got %v of %+v, %v", again.How, again.Payment, err)
	}
}
