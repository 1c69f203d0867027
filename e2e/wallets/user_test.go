//go:build unix

package wallets

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
)

// agentUser is the agent's user of the system.
const agentUser = 65534

// README's going live: purser has a user of its own, and the agent another one. The agent has a key in a
// file, draws from the wallet that was funded, and reaches neither the admin endpoint nor the database.
func TestAgentOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a program as another user")
	}
	w := newWorld(t)
	home, err := os.MkdirTemp("", "purser-agent-") // the folders of tests are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	w.Must(w.T, "exec", "--", "true") // as purser init does: the first key, with the wallet
	made := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create", "--label", "agent")
	file := filepath.Join(home, "agent.key")
	program := filepath.Join(home, "purser")
	text, err := os.ReadFile(w.Binary)
	if err = errors.Join(err, os.WriteFile(file, []byte(made.Key+"\n"), 0o600), os.WriteFile(program, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{home, file} {
		if err := os.Chown(path, agentUser, agentUser); err != nil {
			t.Fatal(err)
		}
	}
	w.Fund(*made.Address, price)
	agent := func(arguments ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, arguments...)
		cmd.Dir, cmd.Env = home, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PURSER_ADMIN=" + w.Admin()}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: agentUser, Gid: agentUser}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := agent("exec", "--key-file", file, "--proxy", "http://"+w.Host(), "--", "curl", "-sS", "-i", w.weather())
	if err != nil || !strings.Contains(out, "200 OK") || w.Holds(*made.Address).String() != "0" {
		t.Errorf("%v: %s", err, out)
	}
	for _, arguments := range [][]string{{"wallets"}, {"exec", "--", "true"}, {"limits", "agent", "--daily-budget", "off"}} {
		if out, err := agent(arguments...); err == nil || !strings.Contains(out, "permission denied") {
			t.Errorf("%v: %v, %s", arguments, err, out)
		}
	}
}
