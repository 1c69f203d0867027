package vault

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// encoded returns the state of a vault.
func encoded(t *testing.T, v *Vault) []byte {
	t.Helper()
	state, err := v.State()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func sealed(t *testing.T, v *Vault) []byte {
	t.Helper()
	s, err := v.Seal(secret, "wallet/1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func opens(t *testing.T, v *Vault, s []byte) {
	t.Helper()
	if got, err := v.Unseal(s, "wallet/1"); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("unsealed %q, %v", got, err)
	}
}

func TestDataKeyIsRotated(t *testing.T) {
	t.Parallel()
	v, _ := made(t)
	before := sealed(t, v)
	two, err := v.AddDataKey()
	if err != nil {
		t.Fatal(err)
	}
	after := sealed(t, two)
	if !v.Newest(before) || two.Newest(before) || !two.Newest(after) || two.Newest(nil) {
		t.Error("the newest data key is not recognized")
	}
	again, err := Open(master, encoded(t, two))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][]byte{before, after} {
		opens(t, again, s)
	}
	if again.Lookup("a") != v.Lookup("a") {
		t.Error("the lookup key has changed")
	}
	one, err := again.DropDataKeys()
	if err != nil {
		t.Fatal(err)
	}
	opens(t, one, before) // for a reader that has it already
	dropped, err := Open(master, encoded(t, one))
	if err != nil {
		t.Fatal(err)
	}
	opens(t, dropped, after)
	if _, err := dropped.Unseal(before, "wallet/1"); err == nil {
		t.Error("the dropped data key still opens")
	}
	if n, newest := dropped.DataKeys(); n != 1 || newest != 2 {
		t.Errorf("%d data keys, the newest is %d", n, newest)
	}
}

func TestMasterKeyIsRotated(t *testing.T) {
	t.Parallel()
	v, _ := made(t)
	two, err := v.AddDataKey()
	if err != nil {
		t.Fatal(err)
	}
	s, next := sealed(t, two), Generate()
	if _, err := two.AddMasterKey(master); !errors.Is(err, ErrSameMasterKey) {
		t.Errorf("the same key: %v", err)
	}
	if _, err := two.UseMasterKey(next); !errors.Is(err, ErrWrongMasterKey) {
		t.Errorf("a key that does not follow: %v", err)
	}
	discarded, err := two.AddMasterKey(MasterKey{7})
	if err != nil {
		t.Fatal(err)
	}
	both, err := discarded.AddMasterKey(next)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(MasterKey{7}, encoded(t, both)); !errors.Is(err, ErrWrongMasterKey) {
		t.Errorf("a key that follows no more: %v", err)
	}
	former, err := Open(master, encoded(t, both))
	if err != nil || former.ByNext() || !former.MasterKeyFollows() {
		t.Fatalf("the former key: %v, %+v", err, former)
	}
	for name, change := range map[string]func() (*Vault, error){"add": former.AddDataKey, "drop": former.DropDataKeys} {
		if _, err := change(); !errors.Is(err, ErrMasterKeyFollows) {
			t.Errorf("%s a data key meanwhile: %v", name, err)
		}
	}
	opened, err := Open(next, encoded(t, both))
	if err != nil || !opened.ByNext() || opened.MasterKeyFollows() {
		t.Fatalf("the next key: %v, %+v", err, opened)
	}
	used, err := former.UseMasterKey(next)
	if err != nil {
		t.Fatal(err)
	}
	for name, last := range map[string]*Vault{"by a start": opened, "at once": used} {
		opens(t, last, s)
		if last.Lookup("a") != v.Lookup("a") {
			t.Errorf("%s: the lookup key has changed", name)
		}
		if _, err := Open(master, encoded(t, last)); !errors.Is(err, ErrWrongMasterKey) {
			t.Errorf("%s: the former key: %v", name, err)
		}
		if again, err := Open(next, encoded(t, last)); err != nil || again.ByNext() {
			t.Errorf("%s: the next key: %v", name, err)
		}
	}
}

func TestMasterKeyFileIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	if _, err := From("", "", path)(true); err != nil {
		t.Fatal(err)
	}
	key := Generate()
	if err := Replace(path, key); err != nil {
		t.Fatal(err)
	}
	if got, err := From("", "", path)(false); err != nil || got != key {
		t.Errorf("the file has another key, %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
