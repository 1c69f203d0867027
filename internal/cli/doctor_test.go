package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
)

func TestDoctorTakesOnePart(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"--attacks", "--all", "--only=killed"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "Caddyfile"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if o := (clitest.Line{Dir: dir}).Run(t, "doctor", "--installation", more); o.Status != 2 || o.Stderr != "purser: doctor: --installation makes no attacks: it goes without --attacks, --all and --only\n" {
			t.Errorf("%s: %+v", more, o)
		}
	}
}
