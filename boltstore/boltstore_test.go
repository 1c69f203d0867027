package boltstore

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storetest"
)

var testMaster = vault.MasterKey{1, 2, 3}

// inFolder are the options of a store in dir. The tests copy files to act a kill, so that their place tells nothing.
func inFolder(dir string) Options {
	nowhere := func(string) (Place, error) { return Place{}, nil }
	return Options{Path: filepath.Join(dir, "purser.db"), MasterKey: vault.Given(testMaster), Place: nowhere}
}

// openIn opens a store that the test closes. It does not wait for the disk: a process that is
// killed loses nothing by that.
func openIn(t testing.TB, o Options) *DB {
	t.Helper()
	d, err := open(context.Background(), o, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// opener opens one file for the conformance suite.
type opener struct {
	options Options
	db      *DB
}

func (o *opener) Open(t testing.TB) pay.Store {
	t.Helper()
	db, err := open(context.Background(), o.options, true)
	if err != nil {
		t.Fatal(err)
	}
	o.db = db
	return db
}

func (o *opener) Close(t testing.TB) {
	t.Helper()
	if err := o.db.Close(); err != nil {
		t.Error(err)
	}
}

// Kill leaves the files as they are at this moment. crash_test.go kills a real process.
func (o *opener) Kill(t testing.TB) {
	t.Helper()
	killed(t, o.db)
}

// Restore writes the mark of a backup, as Copy does.
func (o *opener) Restore(t testing.TB, taken time.Time) {
	t.Helper()
	if err := (&Copy{path: o.options.Path}).complete(&Mark{At: taken}); err != nil {
		t.Fatal(err)
	}
}

// Snapshot keeps the file's bytes.
func (o *opener) Snapshot(t testing.TB) func() {
	t.Helper()
	kept, err := os.ReadFile(o.options.Path)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(o.options.Path, kept, fileMode); err != nil {
			t.Fatal(err)
		}
	}
}

var _ storetest.Restorer = (*opener)(nil)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Opener { return &opener{options: inFolder(t.TempDir())} })
}
