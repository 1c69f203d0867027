package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// saved writes the bytes of a copy to a file.
func saved(t testing.TB, c *Copy, path string) {
	t.Helper()
	from, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
}

// What is copied under load is one moment of the store: the books agree with themselves,
// and everything that was done before is in them.
func TestCopyUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := openIn(t, inFolder(dir))
	fill(t, d)

	var mu sync.Mutex
	var done []string // settled and told so
	stop, failed := make(chan struct{}), make(chan error, 8)
	var payers sync.WaitGroup
	for i := range cap(failed) {
		payers.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				b, err := d.Begin(t.Context(), call(fmt.Sprintf("key-%d", i%3)))
				if err != nil {
					failed <- err
					return
				}
				o := settlement(b.Payment)
				o.Verdict = []pay.Verdict{pay.VerdictSettled, pay.VerdictVoid, pay.VerdictRefused, pay.VerdictSettled}[n%4]
				if _, _, err := d.Record(t.Context(), o); err != nil {
					failed <- err
					return
				}
				if o.Verdict == pay.VerdictSettled {
					mu.Lock()
					done = append(done, b.Payment.ID)
					mu.Unlock()
				}
			}
		})
	}
	told := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(done)
	}
	var marks []Mark
	for round := range 5 {
		eventually(t, "more payments", func() bool { return len(told()) > 50*(round+1) })
		before := told()
		mark := Mark{At: noon.Add(time.Duration(round) * time.Hour), Block: &Block{Network: "base", Number: uint64(100 + round)}}
		c, err := d.Copy(t.Context(), &mark)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Copy(t.Context(), nil); !errors.Is(err, ErrCopying) {
			t.Errorf("a second copy: %v", err)
		}
		if info, err := os.Stat(c.path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		inUse, err := c.Check(t.Context())
		if err := errors.Join(err, inUse.Err()); err != nil || !inUse.Secrets {
			t.Fatal(err)
		}
		restored := filepath.Join(t.TempDir(), "purser.db")
		saved(t, c, restored)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		r := sound(t, restored)
		if r.Labels["settled"]+r.Labels["disputed"] != r.Events || r.Payments < len(before) {
			t.Errorf("%+v", r)
		}
		marks = []Mark{mark}
		if len(r.Backups) != 1 || !r.Backups[0].At.Equal(mark.At) || *r.Backups[0].Block != *mark.Block {
			t.Errorf("marks %+v, want %+v", r.Backups, marks)
		}
		copied := openIn(t, inFolder(filepath.Dir(restored)))
		for _, id := range before {
			if p, err := copied.Payment(t.Context(), id); err != nil || p.State != pay.Settled {
				t.Fatalf("payment %s was settled before the copy: %+v, %v", id, p, err)
			}
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	payers.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	checked(t, d)
	if list := names(t, dir); !slices.Equal(list, []string{"purser.db"}) {
		t.Errorf("left behind: %q", list)
	}
}

// A backup of a restored store tells of both backups: what happened between the first and
// the restore is in neither.
func TestMarksAddUp(t *testing.T) {
	t.Parallel()
	o := filled(t)
	for n := range 3 {
		d := openIn(t, o)
		c, err := d.Copy(t.Context(), &Mark{At: noon.Add(time.Duration(n) * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		o = inFolder(t.TempDir())
		saved(t, c, o.Path)
		if err := errors.Join(c.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		r := sound(t, o.Path)
		if len(r.Backups) != n+1 || !r.Backups[n].At.After(r.Backups[0].At) != (n == 0) {
			t.Errorf("%+v", r.Backups)
		}
	}
}

func TestCopyNeedsRoom(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	o.MinFree, o.FreeSpace = 1<<20, func(string) (uint64, error) { return 1<<20 + 1<<10, nil }
	d := openIn(t, o)
	if _, err := d.Copy(t.Context(), nil); !errors.Is(err, ErrNoRoom) {
		t.Errorf("error %v", err)
	}
	begun(t, d, "k") // paying goes on
	if list := names(t, filepath.Dir(o.Path)); len(list) != 1 {
		t.Errorf("left behind: %q", list)
	}
}

// A copy does not keep a store from closing or from mending itself.
func TestCopyGivesUp(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	d := openIn(t, filled(t))
	if _, err := d.Copy(gone, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("no caller waits: %v", err)
	}
	w := &copyWriter{ctx: t.Context(), store: d, to: io.Discard}
	if _, err := w.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	d.health.Store(&outageStatus{cause: errors.New("disk")})
	if _, err := w.Write([]byte("x")); !errors.Is(err, pay.ErrUnavailable) {
		t.Errorf("the store fails: %v", err)
	}
	d.health.Store(nil)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, errClosed) {
		t.Errorf("the store closes: %v", err)
	}
	if _, err := d.Copy(t.Context(), nil); !errors.Is(err, pay.ErrUnavailable) {
		t.Errorf("the store is closed: %v", err)
	}
	if list := names(t, filepath.Dir(d.path)); len(list) != 1 {
		t.Errorf("left behind: %q", list)
	}
}

func TestCompact(t *testing.T) {
	t.Parallel()
	o := filled(t)
	inside(t, o.Path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put([]byte("ballast"), make([]byte, 4<<20)) })
	inside(t, o.Path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete([]byte("ballast")) })
	if err := os.Chmod(o.Path, 0o640); err != nil {
		t.Fatal(err)
	}
	was := sound(t, o.Path)
	before, after, err := Compact(t.Context(), o.Path)
	if err != nil || before != was.Size || after >= before || after > 1<<20 {
		t.Fatalf("%d before, %d after, %v", before, after, err)
	}
	info, err := os.Stat(o.Path)
	if err != nil || info.Mode().Perm() != 0o640 || info.Size() != after {
		t.Errorf("%v, %v", info, err)
	}
	is := sound(t, o.Path)
	is.Size = was.Size
	if fmt.Sprint(is) != fmt.Sprint(was) {
		t.Errorf("%+v instead of %+v", is, was)
	}
	if list := names(t, filepath.Dir(o.Path)); len(list) != 1 {
		t.Errorf("left behind: %q", list)
	}
	d := openIn(t, o)
	checked(t, d)
	begun(t, d, "k0")
	if _, err := d.WalletSecret(t.Context(), "livek0"); err != nil {
		t.Error(err)
	}
}

func TestCompactRefuses(t *testing.T) {
	t.Parallel()
	untouched := func(t *testing.T, path, text string, want error) {
		t.Helper()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Compact(t.Context(), path); err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v", err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("it was changed, %v", err)
		}
		if list := names(t, filepath.Dir(path)); len(list) != 1 {
			t.Errorf("left behind: %q", list)
		}
	}
	open := filled(t)
	d := openIn(t, open)
	untouched(t, open.Path, "a running purser has it open", ErrLocked)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	inside(t, open.Path, func(tx *bbolt.Tx) error { return tx.Bucket(countersBucket).Put([]byte("none"), []byte("1")) })
	untouched(t, open.Path, "has faults", nil)
	inside(t, open.Path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(schemaKey, []byte("6")) })
	untouched(t, open.Path, "schema is 6", ErrOlder)
	if _, _, err := Compact(t.Context(), filepath.Join(t.TempDir(), "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// The comparison that guards compaction sees any difference.
func TestCompare(t *testing.T) {
	t.Parallel()
	whole, text := small(t)
	for name, change := range map[string]func(*bbolt.Tx) error{
		"nothing": func(*bbolt.Tx) error { return nil },
		"value":   func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(storeIDKey, []byte("x")) },
		"more":    func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put([]byte("zzz"), nil) },
		"less":    func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete(vaultKey) },
		"bucket":  func(tx *bbolt.Tx) error { return tx.DeleteBucket(dueBucket) },
	} {
		path := filepath.Join(t.TempDir(), "purser.db")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		inside(t, path, change)
		a, err := openStopped(whole, lockWait)
		if err != nil {
			t.Fatal(err)
		}
		b, err := openStopped(path, lockWait)
		if err != nil {
			t.Fatal(err)
		}
		err = a.View(func(left *bbolt.Tx) error {
			return b.View(func(right *bbolt.Tx) error { return compare(t.Context(), left, right) })
		})
		if (err == nil) != (name == "nothing") {
			t.Errorf("%s: %v", name, err)
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that waits for the lock of a file which is replaced meanwhile must not use the old
// file, which has no name any more.
func TestReplacedWhileOpening(t *testing.T) {
	t.Parallel()
	o := filled(t)
	text, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	held, err := bbolt.Open(o.Path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	o.lockWait = 20 * time.Second
	opened := make(chan error, 1)
	go func() {
		d, err := Open(context.Background(), o)
		if err == nil {
			d.Close()
		}
		opened <- err
	}()
	// It has the file open once the process has it twice.
	eventually(t, "waiting for the lock", func() bool { return timesOpen(t, o.Path) == 2 })
	if err := os.WriteFile(o.Path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(o.Path+".new", o.Path); err != nil {
		t.Fatal(err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("error %v", err)
	}
	openIn(t, o)
}

// timesOpen counts how often this process has a file open.
func timesOpen(t *testing.T, path string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(all) == 0 {
		t.Skip("no /proc")
	}
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && to == path {
			n++
		}
	}
	return n
}

// Environment of a process that rewrites a store until it is killed.
const (
	rewriteEnv    = "PURSER_BOLTSTORE_REWRITE"
	rewriteHowEnv = "PURSER_BOLTSTORE_REWRITE_HOW"
)

func rewriteOn(dir, how string) error {
	if how == "compact" {
		for {
			if _, _, err := Compact(context.Background(), inFolder(dir).Path); err != nil {
				return err
			}
		}
	}
	d, err := Open(context.Background(), inFolder(dir))
	if err != nil {
		return err
	}
	for {
		c, err := d.Copy(context.Background(), &Mark{At: noon})
		if err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
}

// A process that is killed while it compacts or copies leaves the store as it was, and what
// it had begun is removed later.
func TestKilledWhileRewriting(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"compact", "copy"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o := filled(t)
			dir := filepath.Dir(o.Path)
			inside(t, o.Path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put([]byte("ballast"), make([]byte, 8<<20)) })
			was := sound(t, o.Path)
			begun := 0 // rounds in which a file was left behind
			for round := range 8 {
				child := exec.CommandContext(t.Context(), os.Args[0])
				child.Env = append(os.Environ(), rewriteEnv+"="+dir, rewriteHowEnv+"="+how)
				child.Stderr = os.Stderr
				if err := child.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "a new file", func() bool { return len(names(t, dir)) > 1 })
				time.Sleep(time.Duration(round*7) * time.Millisecond) // any moment will do
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := child.Wait(); err == nil {
					t.Fatal("the process ended by itself")
				}
				if len(names(t, dir)) > 1 {
					begun++
				}
				is, err := CheckFile(t.Context(), o.Path, vault.Given(testMaster))
				if err := errors.Join(err, is.Err()); err != nil {
					t.Fatal(err)
				}
				if is.Payments != was.Payments || is.Events != was.Events || is.Wallets != was.Wallets || is.Backups != nil {
					t.Errorf("%+v instead of %+v", is, was)
				}
				if err := openIn(t, o).Close(); err != nil {
					t.Fatal(err)
				}
				if list := names(t, dir); !slices.Equal(list, []string{"purser.db"}) {
					t.Errorf("left behind: %q", list)
				}
			}
			if begun == 0 {
				t.Error("no kill came in the middle of the work")
			}
		})
	}
}
