package boltstore

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// The check names each row of declines that cannot be right.
func TestCheckSeesWrongDeclines(t *testing.T) {
	t.Parallel()
	_, text := small(t)
	row := func(list ...pay.Declined) []byte {
		encoded, err := encodeDeclined(list)
		if err != nil {
			t.Fatal(err)
		}
		return encoded
	}
	good := pay.Declined{Reason: "paused", Host: "h", Count: 1, First: noon, Last: noon}
	none, late, twice := good, good, good
	none.Count, late.Last = 0, noon.Add(24*time.Hour)
	for _, c := range []struct {
		name string
		key  []byte
		row  []byte
		text string
	}{
		{"unknown key", dayKey("k9", noon), row(good), "what was declined to key k9 on 2026-11-15 has no key"},
		{"no count", dayKey("k0", noon), row(none), `counts 0 for "paused"`},
		{"another day", dayKey("k0", noon), row(late), `counts 1 for "paused"`},
		{"twice", dayKey("k0", noon), row(good, twice), "has 2 rows, 1 of them different"},
		{"empty", dayKey("k0", noon), row(), "has 0 rows"},
		{"no day", []byte("k0"), row(good), "unknown encoding"},
		{"damaged", dayKey("k0", noon), []byte{codec.Version, 0xff}, "decode declines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := inFolder(t.TempDir())
			if err := os.WriteFile(o.Path, text, fileMode); err != nil {
				t.Fatal(err)
			}
			inside(t, o.Path, func(tx *bbolt.Tx) error { return tx.Bucket(declinedBucket).Put(c.key, c.row) })
			r, err := CheckFile(t.Context(), o.Path, vault.Given(testMaster))
			if err != nil || r.Err() == nil || !strings.Contains(r.Err().Error(), c.text) {
				t.Errorf("%v, %v", r.Err(), err)
			}
		})
	}
}
