package keystore

import (
	"bytes"
	"errors"
	"testing"
)

func TestHandover(t *testing.T) {
	t.Parallel()
	r, err := NewReceiver()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewReceiver()
	if err != nil {
		t.Fatal(err)
	}
	secret := bytes.Repeat([]byte{7}, 32)
	sealed, err := Seal(r.Public(), secret, "export/w1")
	if err != nil || bytes.Contains(sealed, secret[:8]) {
		t.Fatalf("%x, %v", sealed, err)
	}
	if got, err := r.Open(sealed, "export/w1"); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("%x, %v", got, err)
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"another receiver": func() ([]byte, error) { return other.Open(sealed, "export/w1") },
		"another purpose":  func() ([]byte, error) { return r.Open(sealed, "export/w2") },
		"changed":          func() ([]byte, error) { return r.Open(changed, "export/w1") },
		"cut":              func() ([]byte, error) { return r.Open(sealed[:9], "export/w1") },
		"nothing":          func() ([]byte, error) { return r.Open(nil, "export/w1") },
	} {
		if got, err := open(); !errors.Is(err, ErrOpen) || got != nil {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
	if _, err := Seal([]byte("short"), secret, "x"); err == nil {
		t.Error("sealed to what is no key")
	}
}
