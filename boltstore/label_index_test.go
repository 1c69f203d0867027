package boltstore

import (
	"fmt"
	"testing"

	"github.com/purserpay/purser/pay"
)

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

// Few payments of a label are found without a walk over the others, of whatever key.
func TestPaymentsOfALabelAreASeek(t *testing.T) {
	d := openIn(t, inFolder(t.TempDir()))
	for i := range 400 {
		begun, err := d.Begin(t.Context(), call(fmt.Sprintf("k%d", i%50)))
		if err != nil {
			t.Fatal(err)
		}
		o := settlement(begun.Payment)
		if i == 3 {
			o.Verdict = pay.VerdictUnresolved
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
