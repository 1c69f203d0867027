package payapi_test

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// Attempts under one idempotency key that are dead are read by no later call, so that their
// number costs nothing: here they cannot be read.
func TestDeadAttemptsUnderOneKeyCostNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "purser.db")
	at := func(s *setup) { s.store.Path = path }
	w := newWorld(t, at)
	key := w.payingKey()
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"invalid_payload"}`))
	body := order(5, "idempotencyKey", "k")
	for range 60 {
		w.call("POST", "/v1/pay", key, body).is(402, verifyFailed)
		w.clock.advance(5 * time.Minute) // nobody drives a refused authorization on that has expired
		w.recover()
	}
	if err := w.payer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	file, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Update(func(tx *bbolt.Tx) error {
		rows := tx.Bucket([]byte("payments"))
		for id, _ := rows.Cursor().First(); id != nil; id, _ = rows.Cursor().Seek(append(id, 0)) {
			damaged++
			if err := rows.Put(id, []byte("damaged")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	next := newWorld(t, at)
	next.clock.advance(6 * time.Hour)
	paid := next.call("POST", "/v1/pay", key, body).is(200, "").want("settled", true)
	if again := next.call("POST", "/v1/pay", key, body).is(200, ""); again.raw != paid.raw || damaged != 60 {
		t.Errorf("%d damaged, the stored answer is %s", damaged, again.raw)
	}
}

// recover runs recovery until nothing is due.
func (w *world) recover() {
	w.t.Helper()
	for n := 1; n > 0; {
		var err error
		if n, err = w.payer.RecoverOnce(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A refused payment that nothing will be said of any more is kept as short as others are.
func TestRefusedPaymentsRetire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"invalid_payload"}`))
	id := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(402, verifyFailed).text("payment.id")
	w.released(id)
	look := func(after time.Duration) (retired, kept bool) {
		w.clock.advance(after)
		w.recover()
		row, err := w.store.Payment(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return row.Retired, row.Offer.Accepted != nil && row.Detail != nil
	}
	if retired, kept := look(time.Hour); retired || !kept {
		t.Errorf("after an hour: retired %t, kept %t", retired, kept)
	}
	if retired, kept := look(29 * 24 * time.Hour); retired || !kept {
		t.Errorf("after 29 days: retired %t, kept %t", retired, kept)
	}
	if retired, kept := look(2 * 24 * time.Hour); !retired || kept {
		t.Errorf("after 31 days: retired %t, kept %t", retired, kept)
	}
	w.call("GET", "/v1/payments/"+id, key, nil).is(200, "").want("payment.flags", []string{"refused"})
	if err := w.store.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
