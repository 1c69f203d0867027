package boltstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// inside changes a closed store's file.
func inside(t *testing.T, path string, change func(*bbolt.Tx) error) {
	t.Helper()
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Update(change); err != nil {
		t.Fatal(err)
	}
}

// made is the file of a closed store.
func made(t *testing.T, world string) Options {
	t.Helper()
	o := inFolder(t.TempDir())
	o.World = world
	d := openIn(t, o)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	o.World = ""
	return o
}

func refused(t *testing.T, o Options, want error, texts ...string) {
	t.Helper()
	d, err := Open(t.Context(), o)
	if err == nil {
		d.Close()
		t.Fatal("it was opened")
	}
	if want != nil {
		wantError(t, err, want)
	}
	for _, text := range append(texts, o.Path) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	start := time.Now()
	refused(t, o, ErrLocked, "another purser process", "PURSER_DATA_DIR")
	if waited := time.Since(start); waited < lockWait/2 || waited > 20*time.Second {
		t.Errorf("waited %s for the lock", waited)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	openIn(t, o)
}

// A store of the schema before is opened as it is. From then on the purser that wrote it would misread it, and refuses it.
func TestStoreOfTheSchemaBefore(t *testing.T) {
	t.Parallel()
	o := made(t, "")
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(schemaKey, []byte(strconv.Itoa(oldestSchema)))
	})
	if err := openIn(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		if got := string(tx.Bucket(metaBucket).Get(schemaKey)); got != strconv.Itoa(schema) {
			t.Errorf("schema %s", got)
		}
		return nil
	})
}

func TestRefusesForeignFiles(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]error{schema + 1: ErrNewer, oldestSchema - 1: ErrOlder, 1: ErrOlder} {
		t.Run(fmt.Sprint("schema ", number), func(t *testing.T) {
			t.Parallel()
			o := made(t, "")
			inside(t, o.Path, func(tx *bbolt.Tx) error {
				return tx.Bucket(metaBucket).Put(schemaKey, []byte(strconv.Itoa(number)))
			})
			before, err := os.ReadFile(o.Path)
			if err != nil {
				t.Fatal(err)
			}
			refused(t, o, want, fmt.Sprint("schema is ", number), fmt.Sprint("reads schema ", schema), "use the ", "purser that wrote it")
			if after, err := os.ReadFile(o.Path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
	t.Run("no schema", func(t *testing.T) {
		t.Parallel()
		o := made(t, "")
		inside(t, o.Path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete(schemaKey) })
		refused(t, o, nil, "not a purser store")
	})
	t.Run("another program's bbolt file", func(t *testing.T) {
		t.Parallel()
		o := inFolder(t.TempDir())
		inside(t, o.Path, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err })
		refused(t, o, nil, "not a purser store")
	})
	t.Run("no bbolt file", func(t *testing.T) {
		t.Parallel()
		o := inFolder(t.TempDir())
		if err := os.WriteFile(o.Path, bytes.Repeat([]byte("not a database\n"), 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, o, nil)
	})
}

func TestWorlds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, made, opened string
		want               error
	}{
		{"ordinary", "", "", nil},
		{"sandbox", Sandbox, Sandbox, nil},
		{"sandbox store in purser", Sandbox, "", ErrWorld},
		{"ordinary store in the sandbox", "", Sandbox, ErrWorld},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := made(t, test.made)
			o.World = test.opened
			if test.want != nil {
				refused(t, o, test.want, "purser-sandbox")
				return
			}
			d := openIn(t, o)
			world, err := d.World(t.Context(), "base")
			if err != nil || world != test.made {
				t.Errorf("world is %q, %v", world, err)
			}
		})
	}
	t.Run("the sandbox stays one", func(t *testing.T) {
		t.Parallel()
		o := inFolder(t.TempDir())
		o.World = Sandbox
		world, err := openIn(t, o).SetWorld(t.Context(), "base", "0xgenesis")
		if err != nil || world != Sandbox {
			t.Errorf("world is %q, %v", world, err)
		}
	})
	t.Run("nothing else becomes one", func(t *testing.T) {
		t.Parallel()
		d := openIn(t, inFolder(t.TempDir()))
		for _, world := range []string{Sandbox, ""} {
			if _, err := d.SetWorld(t.Context(), "base", world); err == nil {
				t.Errorf("world %q was set", world)
			}
		}
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		o := inFolder(t.TempDir())
		o.World = "mars"
		refused(t, o, nil, "mars")
	})
}

func TestMasterKey(t *testing.T) {
	t.Parallel()
	o := made(t, "")
	wrong := o
	wrong.MasterKey = vault.Given(vault.MasterKey{9})
	refused(t, wrong, vault.ErrWrongMasterKey, "PURSER_MASTER_KEY")
	missing := filepath.Join(t.TempDir(), "master.key")
	wrong.MasterKey = vault.From("", "", missing)
	refused(t, wrong, nil, missing, "PURSER_MASTER_KEY")
	if _, err := os.Stat(missing); err == nil {
		t.Error("a new key was generated beside an existing store")
	}
	wrong.MasterKey = nil
	refused(t, wrong, nil, "master key")
	openIn(t, o)
}

func TestGeneratedMasterKey(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	o.MasterKey = vault.From("", "", filepath.Join(filepath.Dir(o.Path), "master.key"))
	for range 2 {
		if err := openIn(t, o).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	o := inFolder(filepath.Join(t.TempDir(), "new", "folder"))
	d, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.bolt.NoSync {
		t.Error("commits do not wait for the disk")
	}
	begun(t, d, "k")
	info, err := os.Stat(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode is %o", mode)
	}
	if size := info.Size(); size > 64<<20 {
		t.Errorf("a new file takes %d bytes", size)
	}
}

func TestEarlierLeasesAreVoid(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	many := scanRows + 10 // more than one transaction's worth
	for range many {
		begun(t, d, "k")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openIn(t, o)
	list, err := d.Payments(t.Context(), pay.PaymentQuery{KeyID: "k", Limit: 2 * many})
	if err != nil || len(list) != many {
		t.Fatalf("%d payments, %v", len(list), err)
	}
	for _, p := range list {
		if p.Lease.Owner != "" || !p.Unanswered || p.Lease.Fence != 1 {
			t.Fatalf("payment %s: lease %+v, unanswered %t", p.ID, p.Lease, p.Unanswered)
		}
	}
	wantError(t, d.Renew(t.Context(), list[0].ID, 1, noon), pay.ErrLeaseLost)
	checked(t, d)
}

func TestLongScans(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	many := 2*scanRows + 7
	var first *pay.Payment
	for i := range many {
		p := begun(t, d, "k")
		o := settlement(p)
		if i == 0 { // the only one that a long walk is for
			if _, _, err := d.Record(t.Context(), pay.Outcome{PaymentID: p.ID, Fence: 1, At: noon, Verdict: pay.VerdictSettled, EventID: newID()}); err != nil {
				t.Fatal(err)
			}
			o.Verdict, first = pay.VerdictConfirmed, p
		}
		if _, _, err := d.Record(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	list, err := d.Payments(t.Context(), pay.PaymentQuery{KeyID: "k", Label: "confirmed", Limit: 5})
	if err != nil || len(list) != 1 || list[0].ID != first.ID {
		t.Fatalf("confirmed: %d payments, %v", len(list), err)
	}
	list, err = d.Payments(t.Context(), pay.PaymentQuery{KeyID: "k", Label: "settled", Limit: many + 1})
	if err != nil || len(list) != many {
		t.Fatalf("settled: %d payments, %v", len(list), err)
	}
	events, err := d.SpendEvents(t.Context(), "k", pay.SpendQuery{Limit: many + 1})
	if err != nil || len(events) != many {
		t.Fatalf("%d events, %v", len(events), err)
	}
	checked(t, d)
}

func TestClosed(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.Begin(t.Context(), call("k"))
	wantError(t, err, pay.ErrUnavailable)
	_, err = d.Payment(t.Context(), "p")
	wantError(t, err, pay.ErrUnavailable)
	wantError(t, d.Health(t.Context()), pay.ErrUnavailable)
}

func TestSecretsAreNotInTheFile(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	ctx := t.Context()
	claimed := pay.NewKey{Key: pay.Key{ID: "claimed", OrganizationID: "org"}, Secret: "pk_claimed-secret"}
	free := pay.NewKey{Key: pay.Key{ID: "free"}, Secret: "pk_unclaimed-secret"}
	for _, k := range []pay.NewKey{claimed, free} {
		if _, err := d.CreateKey(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	wallet := pay.NewWallet{Wallet: pay.Wallet{ID: "w", KeyID: "free"}, Secret: []byte("wallet-secret")}
	if err := d.CreateWallet(ctx, wallet, 1); err != nil {
		t.Fatal(err)
	}
	got, err := d.RevealKey(ctx, "claimed")
	if err != nil || got != claimed.Secret {
		t.Errorf("revealed %q, %v", got, err)
	}
	_, err = d.RevealKey(ctx, "free")
	wantError(t, err, pay.ErrNotRevealable)
	_, err = d.RevealKey(ctx, "unknown")
	wantError(t, err, pay.ErrKeyNotFound)
	checked(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{claimed.Secret, free.Secret, "wallet-secret"} {
		if bytes.Contains(file, []byte(secret)) {
			t.Errorf("%q is in the file", secret)
		}
	}
}
