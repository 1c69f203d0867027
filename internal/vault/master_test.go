package vault

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestParseMasterKey(t *testing.T) {
	t.Parallel()
	key := MasterKey{0: 0xfb, 1: 0xff, 31: 0xfe}
	for _, text := range []string{
		hex.EncodeToString(key[:]), strings.ToUpper(hex.EncodeToString(key[:])),
		base64.StdEncoding.EncodeToString(key[:]), base64.RawStdEncoding.EncodeToString(key[:]),
		base64.URLEncoding.EncodeToString(key[:]), base64.RawURLEncoding.EncodeToString(key[:]),
		" " + hex.EncodeToString(key[:]) + "\n",
	} {
		if got, err := ParseMasterKey(text); err != nil || got != key {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"", " ", "password", hex.EncodeToString(key[:31]), hex.EncodeToString(key[:]) + "00",
		"0x" + hex.EncodeToString(key[:]), base64.StdEncoding.EncodeToString(key[:30]), strings.Repeat("?", 64),
	} {
		if _, err := ParseMasterKey(text); err == nil {
			t.Errorf("%q is a key", text)
		} else if text != "" && text != " " && strings.Contains(err.Error(), text) {
			t.Errorf("the error tells the key: %v", err)
		}
	}
}

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFrom(t *testing.T) {
	t.Parallel()
	a, b := MasterKey{1}, MasterKey{2}
	textA, textB := hex.EncodeToString(a[:]), hex.EncodeToString(b[:])
	missing := filepath.Join(t.TempDir(), "missing.key")
	const bad = "not-a-key-but-secret"
	for _, test := range []struct {
		name, value, file, fallback string
		fresh                       bool
		want                        MasterKey
		errs                        []string
	}{
		{name: "value", value: textA, fallback: write(t, textB), want: a},
		{name: "file", file: write(t, textA+"\n"), fallback: write(t, textB), want: a},
		{name: "generated before", fallback: write(t, textB), want: b},
		{name: "generated before, fresh store", fallback: write(t, textB), fresh: true, want: b},
		{name: "both", value: textA, file: write(t, textA), errs: []string{"PURSER_MASTER_KEY", "PURSER_MASTER_KEY_FILE"}},
		{name: "neither", fresh: true, errs: []string{"PURSER_MASTER_KEY"}},
		{name: "bad value", value: bad, fallback: write(t, textB), errs: []string{"PURSER_MASTER_KEY"}},
		{name: "bad file", file: write(t, bad), errs: []string{"PURSER_MASTER_KEY", "master.key"}},
		{name: "empty file", file: write(t, ""), errs: []string{"master.key"}},
		{name: "long file", file: write(t, strings.Repeat("a", 1<<20)), errs: []string{"master.key", "too large"}},
		{name: "file missing", file: missing, fresh: true, errs: []string{"missing.key"}},
		{name: "a folder", file: t.TempDir(), errs: []string{"PURSER_MASTER_KEY"}},
		{name: "a folder in its place", fallback: t.TempDir(), fresh: true, errs: []string{"PURSER_MASTER_KEY"}},
		{name: "bad generated file", fallback: write(t, bad), fresh: true, errs: []string{"PURSER_MASTER_KEY", "master.key"}},
		{name: "generated file missing", fallback: missing, errs: []string{"PURSER_MASTER_KEY", "missing.key", "put it back"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := From(test.value, test.file, test.fallback)(test.fresh)
			if test.errs == nil {
				if err != nil || got != test.want {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, text := range test.errs {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			if strings.Contains(err.Error(), bad) {
				t.Errorf("the error tells the content: %v", err)
			}
		})
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a key was generated that nobody asked for")
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data", "master.key")
	keys := make([]MasterKey, 16)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			var err error
			if keys[i], err = From("", "", path)(true); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, key := range keys {
		if key != keys[0] || key == (MasterKey{}) {
			t.Fatal("several keys were generated, or none")
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	rest, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(rest) != 1 {
		t.Errorf("left behind: %v, %v", rest, err)
	}
	again, err := From("", "", path)(false)
	if err != nil || again != keys[0] {
		t.Errorf("read back another key, %v", err)
	}
}

func TestCreateExclusive(t *testing.T) {
	t.Parallel()
	path := write(t, "there")
	if err := createExclusive(path, MasterKey{1}); !os.IsExist(err) {
		t.Errorf("error is %v", err)
	}
	path += ".new"
	if err := createExclusive(path, MasterKey{1}); err != nil {
		t.Fatal(err)
	}
	if got, err := readKeyFile(path); err != nil || got != (MasterKey{1}) {
		t.Error(err)
	}
}
