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
	p := newPurser(t, startWorld(t, time.Minute))
	p.start(t)
	p.stop(t)
	for schema, word := range map[int]string{4711: "newer", 1: "older"} {
		db, err := bbolt.Open(p.file(), 0o600, nil)
		mustDo(t, err)
		number := strconv.Itoa(schema)
		mustDo(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte(number)) }))
		mustDo(t, db.Close())
		before, err := os.ReadFile(p.file())
		mustDo(t, err)
		p.launch(t)
		select {
		case <-p.done:
		case <-time.After(30 * time.Second):
			t.Fatal("it runs")
		}
		if code := p.cmd.ProcessState.ExitCode(); code == 0 {
			t.Error("exit status 0")
		}
		for _, word := range []string{"schema is " + number, word, "use the "} {
			if !strings.Contains(p.said.String(), word) {
				t.Errorf("no %q in %s", word, p.said)
			}
		}
		if after, err := os.ReadFile(p.file()); err != nil || !bytes.Equal(before, after) {
			t.Errorf("the file was changed: %v", err)
		}
	}
}
