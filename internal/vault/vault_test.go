package vault

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

var (
	master = MasterKey{1, 2, 3}
	secret = []byte("pk_secret")
)

func made(t *testing.T) (*Vault, []byte) {
	t.Helper()
	v, state, err := New(master)
	if err != nil {
		t.Fatal(err)
	}
	return v, state
}

func TestSealed(t *testing.T) {
	t.Parallel()
	v, state := made(t)
	sealed, err := v.Seal(secret, "wallet/1")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, secret) {
		t.Fatal("the secret is readable")
	}
	again, err := Open(master, state)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Unseal(sealed, "wallet/1")
	if err != nil || !bytes.Equal(got, secret) {
		t.Errorf("%q, %v", got, err)
	}
	other, err := v.Seal(secret, "wallet/1")
	if err != nil || bytes.Equal(other, sealed) {
		t.Errorf("sealed alike twice, %v", err)
	}
	if again.Lookup("a") != v.Lookup("a") || v.Lookup("a") == v.Lookup("b") {
		t.Error("the keyed hash is not one")
	}
	stranger, _ := made(t)
	if stranger.Lookup("a") == v.Lookup("a") {
		t.Error("the hash has no key")
	}
}

func TestUnsealRefuses(t *testing.T) {
	t.Parallel()
	v, _ := made(t)
	stranger, _ := made(t)
	sealed, err := v.Seal(secret, "wallet/1")
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(sealed)
	flipped[len(flipped)-1] ^= 1
	unknown := bytes.Clone(sealed)
	unknown[3] = 9
	for name, test := range map[string]struct {
		v        *Vault
		sealed   []byte
		identity string
	}{
		"another record":   {v, sealed, "wallet/2"},
		"no record":        {v, sealed, ""},
		"another vault":    {stranger, sealed, "wallet/1"},
		"changed":          {v, flipped, "wallet/1"},
		"unknown data key": {v, unknown, "wallet/1"},
		"cut":              {v, sealed[:10], "wallet/1"},
		"empty":            {v, nil, "wallet/1"},
	} {
		if got, err := test.v.Unseal(test.sealed, test.identity); err == nil || got != nil {
			t.Errorf("%s: opened %q", name, got)
		}
	}
	if _, err := v.Seal(secret, ""); err == nil {
		t.Error("sealed without an identity")
	}
}

func TestWrongMasterKey(t *testing.T) {
	t.Parallel()
	_, state := made(t)
	if _, err := Open(MasterKey{9}, state); !errors.Is(err, ErrWrongMasterKey) {
		t.Errorf("error is %v", err)
	}
	for _, damaged := range []string{"", "{}", "null", `{"lookup":"AAAA"}`, string(state[:20])} {
		if _, err := Open(master, []byte(damaged)); err == nil {
			t.Errorf("opened %q", damaged)
		}
	}
}

func TestMasterKeyIsNotPrinted(t *testing.T) {
	t.Parallel()
	key := MasterKey([]byte("0123456789abcdef0123456789abcdef"))
	encoded, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s %x %q", key, key, key, key, key, key), string(encoded)} {
		if strings.Contains(text, "0123") || strings.Contains(text, "3031") || strings.Contains(text, "48 49") {
			t.Errorf("printed as %s", text)
		}
	}
}
