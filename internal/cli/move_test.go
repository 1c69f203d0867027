package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// settled makes the folder of a purser that is stopped.
func settled(t *testing.T, env string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	data := filepath.Join(dir, "purser-data")
	db, err := boltstore.Open(t.Context(), storeIn(dir))
	if err == nil {
		_, err = db.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: "key-1"}, Secret: "pk_secret"})
	}
	if err == nil {
		err = db.Close()
	}
	err = errors.Join(err, os.MkdirAll(filepath.Join(data, "pki"), 0o700))
	for name, text := range map[string]string{
		"purser.env": env, "Caddyfile": "import sites.caddy\n", "sites.caddy": "# sites\n", "webhook.secret": "s", "purser-data/pki/root.key": "root",
		"purser-data/.purser.db.temp-1": "begun",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func storeIn(dir string) boltstore.Options {
	data := filepath.Join(dir, "purser-data")
	return boltstore.Options{Path: filepath.Join(data, "purser.db"), MasterKey: vault.From("", "", filepath.Join(data, "master.key"))}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// The command packs what another server needs, retires the folder, and takes it back. Both then read the chain first.
func TestMove(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "rpc")
	if err := os.WriteFile(outside, []byte("https://rpc.example.com"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := settled(t, "PURSER_WEBHOOK_SECRET_FILE=webhook.secret\nPURSER_RPC_URL_FILE="+outside+"\n")
	to := filepath.Join(t.TempDir(), "there")
	run := func(in string, status int, says string, args ...string) {
		t.Helper()
		got := clitest.Line{Dir: dir, Stdin: strings.NewReader(in), Environ: []string{"PURSER_LOW_BALANCE=1"}}.Run(t, append([]string{"move"}, args...)...)
		if all := got.Stdout + got.Stderr; got.Status != status || !strings.Contains(all, says) {
			t.Fatalf("purser move %q: %d, %s", args, got.Status, all)
		}
	}
	opens := func(dir string, retired bool) {
		t.Helper()
		db, err := boltstore.Open(t.Context(), storeIn(dir))
		if retired {
			if !errors.Is(err, move.ErrMoved) || !strings.Contains(err.Error(), "--undo") {
				t.Fatalf("the retired folder: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if r, err := db.Restored(t.Context()); err != nil || r == nil || !r.Copied {
			t.Fatalf("it does not read the chain: %+v, %v", r, err)
		}
		if _, err := db.Key(t.Context(), "key-1"); err != nil {
			t.Fatal(err)
		}
	}
	status := func(says string) {
		t.Helper()
		if got := (clitest.Line{Dir: dir}).Run(t, "status"); got.Status != 1 || !strings.Contains(got.Stderr, says) {
			t.Fatalf("purser status: %d, %s", got.Status, got.Stderr)
		}
	}
	status("is purser running")
	run("", 1, "say where to")
	run("", 1, "say where to", "--to", to, "--undo")
	run("", 1, "in the data directory", "--to", "purser-data/x")
	run("", 1, "not retired", "--undo", "--yes")
	run("no\n", 1, "nothing was moved", "--to", to)
	run("", 1, "already exists", "--to", outside, "--yes")
	run("yes\n", 0, "keys 1", "--to", to)
	if got, want := filesIn(t, to), []string{
		"Caddyfile", "purser-data/master.key", "purser-data/pki/root.key", "purser-data/purser.db", "purser.env", "secrets/PURSER_RPC_URL_FILE", "sites.caddy", "webhook.secret",
	}; !slices.Equal(got, want) {
		t.Errorf("packed %q, want %q", got, want)
	}
	run("", 0, "PURSER_RPC_URL_FILE was "+outside, "--to", to, "--yes") // again: it is told again
	run("", 0, "set in this shell only, and not packed: PURSER_LOW_BALANCE", "--to", to, "--yes")
	run("", 1, "was retired", "--to", to+"2", "--yes")
	opens(dir, true)
	status("this folder was retired")
	opens(to, false)
	run("no\n", 1, "stays retired", "--undo")
	run("", 0, "no longer retired", "--undo", "--yes")
	opens(dir, false)
}

// The command moves nothing of PostgreSQL, and says what is to be done.
func TestMoveWithPostgres(t *testing.T) {
	t.Parallel()
	got := clitest.Run(t, []string{"PURSER_STORE=postgres"}, "move", "--to", "x")
	if got.Status != 1 || !strings.Contains(got.Stderr, "master key") {
		t.Errorf("%+v", got)
	}
}
