package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
)

// Flags of the attacks lead to the program that makes them.
func TestDoctorNamesTheAttacks(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--attacks"}, {"--installation", "--all"}, {"--only", "killed"}, {"--only=killed"}, {"--list"}, {"--timeout", "1m"}} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "Caddyfile"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		o := clitest.Line{Dir: dir}.Run(t, append([]string{"doctor"}, flags...)...)
		if o.Status != 2 || !strings.Contains(o.Stderr, "is for attacks, which another program makes: purser-sandbox attack\n") {
			t.Errorf("%s: %+v", flags, o)
		}
		o = clitest.Line{Dir: dir}.Run(t, append([]string{"doctor", "--config", "my.Caddyfile"}, flags...)...)
		if o.Status != 2 || !strings.HasSuffix(o.Stderr, ": purser-sandbox attack my.Caddyfile\n") {
			t.Errorf("%s: %+v", flags, o)
		}
	}
}
