package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// The command moves a store there, refuses what it must, and tells a database of its backup. It never shows the
// password of the database.
func TestMigrate(t *testing.T) {
	t.Parallel()
	server, dir := pgtest.Start(t), t.TempDir()
	o := boltstore.Options{Path: filepath.Join(dir, "purser.db"), MasterKey: vault.From("", "", filepath.Join(dir, "master.key"))}
	db, err := boltstore.Open(t.Context(), o)
	if err == nil {
		_, err = db.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: "key-1"}, Secret: "pk_secret"})
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(status int, says string, args ...string) {
		t.Helper()
		got := clitest.Run(t, []string{"PURSER_DATA_DIR=" + dir, "DATABASE_URL=" + server.URL + "&password=hunter2"}, args...)
		all := got.Stdout + got.Stderr
		if got.Status != status || !strings.Contains(all, says) || strings.Contains(all, "hunter2") {
			t.Errorf("purser %q: %d, %s", args, got.Status, all)
		}
	}
	run(1, "is locked", "migrate", "--from", "bolt", "--to", "postgres")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	run(1, "one way", "migrate", "--from", "bolt")
	run(1, "one way", "migrate", "--from", "postgres", "--to", "bolt")
	run(1, "has no store", "restore", "--taken", "2026-01-02T03:04:05Z")
	run(0, "PURSER_STORE=postgres", "migrate", "--from", "bolt", "--to", "postgres")
	run(1, "was moved", "migrate", "--from", "bolt", "--to", "postgres")
	run(1, "in the future", "restore", "--taken", "2999-01-02T03:04:05Z")
	run(0, "2026-01-02", "restore", "--taken", "2026-01-02T03:04:05Z")
}
