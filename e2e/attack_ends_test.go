package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// However an examination is broken off, its scratch purser and its folder do not outlive it.
func TestAttackThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	binary := process.Program(t, process.Plain)
	config := filepath.Join(process.Root(), "xcaddy.Caddyfile")
	for name, end := range map[string]func(cmd *exec.Cmd, stdout *os.File){
		"nobody reads on":        func(_ *exec.Cmd, stdout *os.File) { _ = stdout.Close() },
		"the terminal is closed": func(cmd *exec.Cmd, _ *os.File) { _ = cmd.Process.Signal(syscall.SIGHUP) },
		"interrupted":            func(cmd *exec.Cmd, _ *os.File) { _ = cmd.Process.Signal(os.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			stdout, theirs, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stdout.Close() }()
			cmd := exec.CommandContext(env.ctx, process.Program(t, process.Offline), "attack", config, "--purser", binary, "--only", "rebinding", "--only", "answer-lost")
			cmd.Dir, cmd.Env, cmd.Stdout = dir, process.Environment("TMPDIR="+dir), theirs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = theirs.Close()
			if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil { // the purser runs
				t.Fatal(err)
			}
			began := time.Now()
			end(cmd, stdout)
			err = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 2 || time.Since(began) > time.Minute {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}
