package wallets

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/internal/vault"
)

// quick is a world whose pursers read the chain without a pause. Its clock is the machine's.
func quick(t *testing.T) (w *world, key string) {
	t.Helper()
	t.Parallel()
	w = &world{sandboxed.New(t, process.Failpoints, process.NewClock(t).Setting())}
	made := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create", "--label", "agent")
	w.Fund(*made.Address, 3*price)
	w.buys(made.Key)
	return w, made.Key
}

// on starts a purser on another folder, which pays on the same chain.
func (w *world) on(data string) *world {
	w.Helper()
	p := process.NewPurser(w.T, w.Binary, data, w.Settings...)
	p.Start(w.T)
	return &world{&sandboxed.World{T: w.T, Purser: p, Money: w.Money}}
}

// reads checks that a purser pays nothing until it has read the chain, says so, and then pays.
func (w *world) reads(key string) {
	w.Helper()
	a, err := process.Ask(w.Context(), w.Client(key), http.MethodGet, w.weather(), "")
	if err != nil || a.Status == http.StatusOK || a.Header.Get("Purser-Transaction") != "" {
		w.Fatalf("%v, %+v", err, a)
	}
	for _, command := range []string{"status", "reconcile"} {
		if out, err := w.Command(w.T, command); err == nil || !strings.Contains(out, "copied or moved") {
			w.Fatalf("purser %s: %s", command, out)
		}
	}
	w.End(w.T)
	w.LongAgo(w.T)
	w.Start(w.T)
	w.Must(w.T, "reconcile", "--wait")
	w.buys(key)
	w.Must(w.T, "check")
}

// settled counts the payments that have settled.
func (w *world) settled() int {
	w.Helper()
	return strings.Count(w.Must(w.T, "payments", "--state", "settled", "--json"), `"transaction"`)
}

// A purser moves: the command stops it and packs it, the old folder refuses, and the new one has its books and pays.
func TestMovedFolder(t *testing.T) {
	w, key := quick(t)
	to := filepath.Join(t.TempDir(), "purser.tar")
	if out := w.Must(t, "move", "--to", to, "--yes"); !strings.Contains(out, "stopped purser") || !strings.Contains(out, "keys 1") {
		t.Fatal(out)
	}
	if !w.EndsWithin(30 * time.Second) {
		t.Fatal("it runs on")
	}
	if err := w.Open(); err == nil || !strings.Contains(w.Output.End(), "this folder was retired") {
		t.Fatalf("%v\n%s", err, w.Output.End())
	}
	there := t.TempDir()
	if out, err := exec.Command("tar", "xpf", to, "-C", there).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	other := w.on(filepath.Join(there, "purser", "purser-data"))
	other.reads(key)
	if n := other.settled(); n != 2 {
		t.Errorf("%d payments", n)
	}
}

// A folder is copied while its purser lives, which pays on. A purser on the copy first reads from the chain what the other
// one has paid, and books it.
func TestCopiedFolder(t *testing.T) {
	w, key := quick(t)
	data := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(data, os.DirFS(w.Data)); err != nil {
		t.Fatal(err)
	}
	w.buys(key)
	w.End(t)
	other := w.on(data)
	other.reads(key)
	if n := other.settled(); n != 3 {
		t.Errorf("%d payments, and the chain has 3", n)
	}
	w.Start(t) // the first one is in its place, and lost nothing
	if n := w.settled(); n != 2 {
		t.Errorf("%d payments", n)
	}
	if out := w.Must(t, "reconcile"); !strings.Contains(out, "nothing to reconcile") {
		t.Error(out)
	}
}

// The command is killed between any two of its steps: at most one folder pays, and the next run completes the move.
func TestKilledMoves(t *testing.T) {
	t.Parallel()
	for _, place := range []string{failpoint.MovePacking, failpoint.MovePacked, failpoint.MoveRetired, failpoint.MoveDelivered} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			data, to := t.TempDir(), filepath.Join(t.TempDir(), "purser.tar")
			o := boltstore.Options{Path: filepath.Join(data, "purser.db"), MasterKey: vault.From("", "", filepath.Join(data, "master.key"))}
			opens := func() bool {
				t.Helper()
				db, err := boltstore.Open(t.Context(), o)
				if err != nil && !errors.Is(err, move.ErrMoved) {
					t.Fatal(err)
				}
				return err == nil && db.Close() == nil
			}
			there := func() bool {
				_, err := os.Lstat(to)
				return !errors.Is(err, fs.ErrNotExist)
			}
			if !opens() {
				t.Fatal("no store")
			}
			p := process.NewPurser(t, process.Program(t, process.Failpoints), data, failpoint.KillAt+"="+place)
			if out, err := p.Command(t, "move", "--to", to, "--yes"); err == nil {
				t.Fatal(out)
			}
			here, arrived := opens(), there()
			if retired := place == failpoint.MoveRetired || place == failpoint.MoveDelivered; here == retired || arrived != (place == failpoint.MoveDelivered) {
				t.Fatalf("the old folder opens: %v, the new one is there: %v", here, arrived)
			}
			p.Settings = nil
			p.Must(t, "move", "--to", to, "--yes")
			if opens() || !there() {
				t.Fatal("the next run did not complete the move")
			}
		})
	}
}
