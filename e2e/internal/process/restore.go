package process

import (
	"encoding/json"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// LongAgo makes a stopped purser believe that it was restored ten minutes ago, so that the test
// need not wait.
func (p *Purser) LongAgo(t testing.TB) {
	t.Helper()
	file, err := bbolt.Open(p.File(), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = file.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		var r pay.Restore
		if err := json.Unmarshal(meta.Get([]byte("reconciling")), &r); err != nil {
			return err
		}
		r.At = r.At.Add(-10 * time.Minute)
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return meta.Put([]byte("reconciling"), text)
	})
	if err != nil {
		t.Fatal(err)
	}
}
