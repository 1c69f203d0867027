package process

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
)

// Purser is cmd/purser with one data directory and one set of ports, however often it is started.
type Purser struct {
	// Process is the one that runs, or ran last.
	*Process
	// Binary and Config are the program and its configuration file.
	Binary, Config string
	// Data is the directory of the database.
	Data string
	// Port is the port of its doors. Sidecar and Metrics are the other ports of the shipped
	// configuration.
	Port, Sidecar, Metrics int
	// Settings are further variables of its environment, and win over those before them.
	Settings []string
	// InCaddy: the program is a Caddy with purser in it, which has purser's commands below one.
	InCaddy bool
	// Output receives what all that are started say.
	Output *Log
}

// NewPurser prepares a purser with the configuration that people start from, and starts none.
func NewPurser(t testing.TB, binary, data string, settings ...string) *Purser {
	t.Helper()
	ports := Ports(t, 3)
	return &Purser{
		Binary: binary, Config: filepath.Join(Root(), "xcaddy.Caddyfile"), Data: data,
		Port: ports[0], Sidecar: ports[1], Metrics: ports[2], Settings: settings, Output: new(Log),
	}
}

// Host, URL, SidecarURL and MetricsURL are its addresses.
func (p *Purser) Host() string           { return "127.0.0.1:" + strconv.Itoa(p.Port) }
func (p *Purser) URL(path string) string { return "http://" + p.Host() + path }
func (p *Purser) SidecarURL() string     { return "http://127.0.0.1:" + strconv.Itoa(p.Sidecar) }
func (p *Purser) MetricsURL() string {
	return "http://127.0.0.1:" + strconv.Itoa(p.Metrics) + "/metrics"
}

// Socket is the path of its admin endpoint, and Admin that endpoint's address.
func (p *Purser) Socket() string { return p.Data + ".sock" }
func (p *Purser) Admin() string  { return "unix/" + p.Socket() }

// File is the path of its database.
func (p *Purser) File() string { return filepath.Join(p.Data, "purser.db") }

// Environment returns the environment of the program and its own commands.
func (p *Purser) Environment(more ...string) []string {
	list := Environment(
		"PURSER_PORT="+strconv.Itoa(p.Port), "PURSER_UPSTREAM_PORT="+strconv.Itoa(p.Sidecar), "PURSER_METRICS_PORT="+strconv.Itoa(p.Metrics),
		"PURSER_DATA_DIR="+p.Data, "PURSER_ADMIN="+p.Admin()+"|0600",
	)
	return append(append(list, p.Settings...), more...)
}

// Run starts the program. more are further variables.
func (p *Purser) Run(more ...string) (err error) {
	cmd := exec.Command(p.Binary, "run", "--config", p.Config, "--adapter", "caddyfile")
	cmd.Env = p.Environment(more...)
	p.Process, err = Run(cmd, p.Output, nil)
	return err
}

// Open starts the program and returns when it answers.
func (p *Purser) Open(more ...string) error {
	if err := p.Run(more...); err != nil {
		return err
	}
	err := p.Await(p.URL("/"))
	if err != nil && !errors.Is(err, ErrEnded) {
		p.Kill()
	}
	return err
}

// Launch starts the program, which is killed at the end of the test if it still runs.
func (p *Purser) Launch(t testing.TB, more ...string) {
	t.Helper()
	if err := p.Run(more...); err != nil {
		t.Fatal(err)
	}
	started := p.Process
	t.Cleanup(func() {
		if started.Kill(); t.Failed() && started == p.Process {
			t.Logf("purser said:\n%s", p.Output.End())
		}
	})
}

// Start starts the program and returns when it answers. It is killed at the end of the test if it still runs.
func (p *Purser) Start(t testing.TB, more ...string) {
	t.Helper()
	p.Launch(t, more...)
	if err := p.Await(p.URL("/")); err != nil {
		t.Fatal(err)
	}
}

// End asks the program to end, as a service manager does, and fails the test if it does not end well.
func (p *Purser) End(t testing.TB) {
	t.Helper()
	if err := p.Stop(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, p.Output.End())
	}
}

// Command runs one of purser's own commands for at most a minute and returns what it says.
func (p *Purser) Command(t testing.TB, arguments ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if p.InCaddy {
		arguments = append([]string{"purser"}, arguments...)
	}
	cmd := exec.CommandContext(ctx, p.Binary, arguments...)
	cmd.Env = p.Environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Must runs one of purser's own commands, which must succeed.
func (p *Purser) Must(t testing.TB, arguments ...string) string {
	t.Helper()
	out, err := p.Command(t, arguments...)
	if err != nil {
		t.Fatalf("purser %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return out
}

// KilledAt starts the program, which must kill itself at a place by the end of what is then done. It may
// die before it answers, and nothing is done. more are further variables.
func (p *Purser) KilledAt(t testing.TB, place string, do func(), more ...string) {
	t.Helper()
	p.Launch(t, append(more, failpoint.KillAt+"="+place)...)
	switch err := p.Await(p.URL("/")); {
	case err == nil:
		do()
	case !errors.Is(err, ErrEnded):
		t.Fatal(err)
	}
	if !p.EndsWithin(30*time.Second) || !p.Killed() {
		t.Fatalf("%s was not reached", place)
	}
}

// Check fails the test unless `purser check` is content with the database, which is closed.
func (p *Purser) Check(t testing.TB) {
	t.Helper()
	if out, err := p.Command(t, "check", "--data-dir", p.Data); err != nil {
		t.Errorf("purser check: %v\n%s", err, out)
	}
}
