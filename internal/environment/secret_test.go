package environment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/testing/needed"
)

// A reference is resolved by the operator's command. Without a secret it is an error that has none.
func TestSecretByCommand(t *testing.T) {
	t.Parallel()
	needed.Program(t, "a POSIX shell", "sh")
	dir := t.TempDir()
	op := filepath.Join(dir, "op")
	if err := os.WriteFile(op, []byte(`#!/bin/sh
case "$1 $2" in
"read op://v/key") echo "  s3cret " ;;
"read kv/key") echo "kv-s3cret" ;;
"read op://v/none") echo "no s3cret" >&2; exit 3 ;;
"read op://v/half") echo "s3cret"; exit 1 ;;
"read op://v/empty") echo ;;
"read op://v/slow") exec sleep 60 ;;
"read op://v/child") sleep 60 & exit 0 ;;
"read op://v/long") head -c 100000 /dev/zero ;;
esac
`), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("of-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, value, want, err string }{
		{"", "plain", "plain", ""},
		{"", "", "", ""},
		{"", "https://rpc.example.com", "https://rpc.example.com", ""},
		{op + " read", "op://v/key", "s3cret", ""},
		{op + "  read ", "vault:kv/key", "kv-s3cret", ""},
		{op + " read", "secret:kv/key", "kv-s3cret", ""},
		{"", "file:" + file, "of-file", ""},
		{"", "file:" + dir + "/none", "", "no such file"},
		{"", "op://v/key", "", "PURSER_SECRETS_COMMAND, which resolves it, is not set"},
		{op + " read", "op://v/none", "", "failed (exit status 3)"},
		{op + " read", "op://v/half", "", "failed (exit status 1)"},
		{op + " read", "op://v/empty", "", "gave nothing"},
		{op + " read", "op://v/long", "", "more than a secret"},
		{op + " read", "op://v/slow", "", "no answer within 500ms"},
		{op + " read", "op://v/child", "", "PURSER_SECRETS_COMMAND"},
		{dir + "/missing", "op://v/key", "", "cannot be run"},
	} {
		got, err := secret(func(string) string { return c.command }, c.value, 500*time.Millisecond)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%q %s: %.40q, %v; want %q, %q", c.command, c.value, got, err, c.want, c.err)
		}
	}
}
