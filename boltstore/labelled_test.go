package boltstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// A store of before finds its payments by their labels over all keys.
func TestUpgradeListsPaymentsOfAllKeys(t *testing.T) {
	t.Parallel()
	d := openIn(t, unpacked(t, "schema1"))
	found := 0
	for _, label := range append([]string{""}, allLabels...) {
		var want []string
		for _, key := range []string{"key-0", "key-1"} {
			list, err := d.Payments(t.Context(), pay.PaymentQuery{KeyID: key, Label: label, Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range list {
				want = append(want, p.ID)
			}
		}
		slices.Sort(want)
		slices.Reverse(want)
		if got := allIDs(t, d, pay.LabelQuery{Label: label, Limit: 1000}); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", label, got, want)
		}
		found += len(want)
	}
	if found < 80 { // 40, once each as any and by its state
		t.Errorf("only %d payments were found", found)
	}
}

func allIDs(t *testing.T, d *DB, q pay.LabelQuery) (ids []string) {
	t.Helper()
	list, err := d.AllPayments(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	return ids
}

// The upgrade of a long history, begun and cut off before.
func TestUpgradeOfManyPayments(t *testing.T) {
	t.Parallel()
	o := made(t, "")
	const many = 2*scanRows + 3
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		for i := range many {
			p := &pay.Payment{ID: fmt.Sprintf("%08d", i), KeyID: "k", State: pay.Open, Unresolved: i%2 == 0}
			row, err := encodePayment(p)
			if err != nil {
				return err
			}
			if err := tx.Bucket(paymentsBucket).Put([]byte(p.ID), row); err != nil {
				return err
			}
		}
		stale := labelledKey(&pay.Payment{ID: "00000001", State: pay.Void})
		return errors.Join(
			tx.Bucket(labelledBucket).Put(stale, nil),
			tx.Bucket(metaBucket).Put(schemaKey, []byte("2")),
		)
	})
	d := openIn(t, o)
	if n := len(allIDs(t, d, pay.LabelQuery{Label: "unresolved", Limit: many})); n != many/2+1 {
		t.Errorf("%d are unresolved", n)
	}
	if n := len(allIDs(t, d, pay.LabelQuery{Limit: many + 1})); n != many {
		t.Errorf("%d in all", n)
	}
	if n := len(allIDs(t, d, pay.LabelQuery{Label: "void", Limit: many})); n != 0 {
		t.Errorf("%d are void", n)
	}
}

// Few payments of a label are found without a walk over the others, of whatever key.
func TestPaymentsOfALabelAreASeek(t *testing.T) {
	d, err := open(t.Context(), inFolder(t.TempDir()), true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range 400 {
		begun, err := d.Begin(t.Context(), call(fmt.Sprintf("k%d", i%50)))
		if err != nil {
			t.Fatal(err)
		}
		o := settlement(begun.Payment)
		if i == 3 {
			o.Verdict = pay.VerdictAbsent
		}
		if _, _, err := d.Record(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []pay.LabelQuery{
		{Label: "unresolved", Limit: 100},
		{Label: "open", Without: []string{"confirmed"}, Limit: 100},
		{Label: "settled", Limit: 1},
	} {
		perCall := testing.AllocsPerRun(20, func() {
			if n := len(allIDs(t, d, q)); n != 1 {
				t.Errorf("%+v: %d payments", q, n)
			}
		})
		if perCall > 250 { // decoding one takes about 60
			t.Errorf("%+v: %.0f allocations for one payment among 400", q, perCall)
		}
	}
}
