package ship

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// purser is a running purser.
type purser struct {
	*process.Process
	url string
}

// start starts a purser and waits until it answers.
func start(t *testing.T, cmd *exec.Cmd, url string) *purser {
	t.Helper()
	p := &purser{process.Start(t, cmd, nil), url}
	if err := p.Await(url + "/"); err != nil {
		t.Fatal(err)
	}
	return p
}

// stop ends it as a service manager does, and fails unless it ends well, and in the time that the units and manifests of
// deploy give it.
func (p *purser) stop(t *testing.T) {
	t.Helper()
	if err := p.Stop(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, p.Log.End())
	}
}

// get is an answer that must be a 200.
func get(t *testing.T, client *http.Client, url string) (string, http.Header) {
	t.Helper()
	got, err := process.Ask(t.Context(), client, http.MethodGet, url, "")
	if err != nil || got.Status != http.StatusOK {
		t.Fatalf("GET %s: %v, %+v", url, err, got)
	}
	return got.Body, got.Header
}

// requireVersion fails unless purser tells everywhere which build it is.
func requireVersion(t *testing.T, status, health, metrics string) {
	t.Helper()
	for place, text := range map[string]string{"purser status": status, "/health": health, "/metrics": metrics} {
		want := shown
		if place == "/metrics" {
			want = fmt.Sprintf("version=%q", shown)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s does not show %s:\n%.3000s", place, want, text)
		}
	}
	if !strings.Contains(metrics, "purser_build_info{") {
		t.Error("there is no metric purser_build_info")
	}
}
