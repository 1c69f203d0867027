package kills

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	runs   = flag.Int("kills.runs", 20, "how many pursers are killed at random")
	seed   = flag.Uint64("kills.seed", 0, "what chance begins with; 0 is another one each time")
	atOnce = flag.Int("kills.parallel", 24, "how many pursers run at once")
)

// binaries are the program under test with and without failpoints.
var binaries struct{ armed, plain string }

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// The tests wait for blocks and for recovery, not for a processor.
	if err := flag.Set("test.parallel", fmt.Sprint(*atOnce)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "purser-kills-")
	if err == nil {
		defer os.RemoveAll(dir)
		binaries.armed, err = binary("PURSER_FAILPOINTS_BIN", filepath.Join(dir, "armed"), "-tags", "failpoints")
	}
	if err == nil {
		binaries.plain, err = binary("PURSER_BIN", filepath.Join(dir, "plain"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer chains.close()
	return m.Run()
}

// binary is a program that a variable names, else one that is built.
func binary(variable, path string, options ...string) (string, error) {
	if named := os.Getenv(variable); named != "" {
		return filepath.Abs(named)
	}
	command := append([]string{"build", "-o", path}, options...)
	out, err := exec.CommandContext(context.Background(), "go", append(command, "../../cmd/purser")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build purser: %w\n%s", err, out)
	}
	return path, nil
}
