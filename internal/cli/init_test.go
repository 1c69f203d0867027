package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// firstKey stands in for the server's own key making: a data directory with the key's files.
func firstKey(dir string) (cli.FirstKey, error) {
	data := filepath.Join(dir, "purser-data")
	k := cli.FirstKey{
		ID: "0199", Address: "0x" + strings.Repeat("7", 40), Network: "base", Dir: data,
		Master: filepath.Join(data, "master.key"),
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return k, err
	}
	for _, file := range []string{k.Master} {
		if err := os.WriteFile(file, []byte("x\n"), 0o600); err != nil {
			return k, err
		}
	}
	return k, nil
}

func initIn(t *testing.T, dir, stdin string, environ []string, args ...string) clitest.Outcome {
	t.Helper()
	l := clitest.Line{Dir: dir, Environ: environ, Stdin: strings.NewReader(stdin), MakeKey: func(context.Context) (cli.FirstKey, error) { return firstKey(dir) }}
	return l.Run(t, append([]string{"init"}, args...)...)
}

// patiently runs a command, and once more if it did not say what is wanted: it gives what it asks
// little time, which a busy machine may take.
func patiently(want string, run func() clitest.Outcome) clitest.Outcome {
	o := run()
	if !strings.Contains(o.Stdout+o.Stderr, want) {
		o = run()
	}
	return o
}
