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

// The end of init says what the project of the folder needs: by what its programs are run, and what their libraries want.
func TestInitReadsTheProject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files     map[string]string
		says, not []string
	}{
		"nothing": {nil, nil, []string{"Your project"}},
		"Node": {
			map[string]string{"package.json": `{"dependencies":{"undici":"6"}}`, "package-lock.json": `{"packages":{"node_modules/undici-types":{},"node_modules/axios":{}}}`},
			[]string{"here is package-lock.json: purser exec -- node"},
			[]string{"EnvHttpProxyAgent", "here is package.json"},
		},
		"undici": {map[string]string{"yarn.lock": "undici@^6.0.0:\n  version 6\n"}, []string{"here is yarn.lock", "EnvHttpProxyAgent"}, nil},
		"Python": {
			map[string]string{"requirements.txt": "requests==2.32\naiohttp>=3.9 # client\n"}, []string{"here is requirements.txt: purser exec -- python", "trust_env=True"}, []string{"urllib3"},
		},
		"two": {map[string]string{"go.mod": "module x\n", "pom.xml": "<project/>"}, []string{"here is go.mod", "here is pom.xml", "Authenticator"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o := initIn(t, dir, "", nil, "--yes")
			for _, want := range c.says {
				if !strings.Contains(o.Stdout, want) {
					t.Errorf("no %q in %s", want, o.Stdout)
				}
			}
			for _, not := range c.not {
				if strings.Contains(o.Stdout, not) {
					t.Errorf("%q in %s", not, o.Stdout)
				}
			}
		})
	}
}
