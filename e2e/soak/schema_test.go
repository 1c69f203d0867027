package soak

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// A purser refuses a database of another schema, leaves it as it is, and says what to do.
func TestOtherSchemasAreRefused(t *testing.T) {
	t.Parallel()
	p := newPurser(t, startWorld(t))
	p.Start(t)
	p.End(t)
	for schema, word := range map[int]string{4711: "newer", 1: "older"} {
		db, err := bbolt.Open(p.File(), 0o600, nil)
		mustDo(t, err)
		number := strconv.Itoa(schema)
		mustDo(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte(number)) }))
		mustDo(t, db.Close())
		before, err := os.ReadFile(p.File())
		mustDo(t, err)
		p.Launch(t)
		if !p.EndsWithin(30 * time.Second) {
			t.Fatal("it runs")
		}
		if code := p.Cmd.ProcessState.ExitCode(); code == 0 {
			t.Error("exit status 0")
		}
		for _, word := range []string{"schema is " + number, word, "use the "} {
			if !strings.Contains(p.Output.String(), word) {
				t.Errorf("no %q in %s", word, p.Output)
			}
		}
		if after, err := os.ReadFile(p.File()); err != nil || !bytes.Equal(before, after) {
			t.Errorf("the file was changed: %v", err)
		}
	}
}
