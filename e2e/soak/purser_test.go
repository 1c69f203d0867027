package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// purser is cmd/purser with the configuration that people start from.
type purser struct{ *process.Purser }

// secret is PURSER_INTERNAL_SECRET: keys are made with plans that allow enough payments.
const secret = "soak-internal-secret"

// newPurser configures a purser for a world.
func newPurser(t *testing.T, w *world, edit ...string) *purser {
	t.Helper()
	names := "trust " + w.certificates.File + "\ntunnel " + nameTunnel + "\n"
	for _, name := range []string{nameGood, nameBad, nameTunnel} {
		names += "resolve " + name + " 127.0.0.1\n"
	}
	binary, settings := process.Plain, []string(nil)
	if w.clock != nil {
		binary, settings = process.Failpoints, []string{w.clock.Setting()}
	}
	p := &purser{process.NewPurser(t, process.Program(t, binary), filepath.Join(t.TempDir(), "data"),
		append(settings, "PURSER_FACILITATOR_URL="+w.facilitatorURL, "PURSER_RPC_URL="+w.rpcURL, "PURSER_INTERNAL_SECRET="+secret,
			"PURSER_DAILY_BUDGET=1000000", "PURSER_PER_MINUTE=1000000", "PURSER_FAILURES_PER_MINUTE=off", "PURSER_FAILURES_PER_DAY=off",
			"PURSER_UPSTREAM=http://127.0.0.1:"+w.http)...)}
	p.Config = process.Shipped(t, append([]string{
		process.ProxyBlock, process.ProxyBlock + names, process.AppBlock, process.AppBlock + "task " + tightTask + " {\ndaily_budget 0.01\n}\n",
	}, edit...)...)
	p.Output.Without = `"level":"info"` // there is a line for every payment
	return p
}

// tightTask is a task with a budget that is soon spent.
const tightTask = "tight"

// key is an API key with a funded wallet.
type key struct {
	secret string
	wallet x402.Address
}

// newKey makes a key in an organization of its own, since a plan's payments are the organization's.
func (p *purser) newKey(t *testing.T, w *world, n int) key {
	t.Helper()
	var made struct{ Key, Address string }
	p.must(t, http.MethodPost, "/api-keys", fmt.Sprintf(`{"label":"soak","organization_id":"soak-%d","plan":"AGENCY"}`, n), &made, "X-Internal-Secret", secret)
	p.must(t, http.MethodPost, "/wallets", "{}", &made, "X-Api-Key", made.Key)
	wallet, err := x402.ParseAddress(made.Address)
	if err != nil {
		t.Fatal(err)
	}
	w.fund(wallet, funds)
	return key{made.Key, wallet}
}

// funds is a wallet's first balance.
const funds = 1 << 40

// must makes a call of the API that has to succeed.
func (p *purser) must(t *testing.T, method, path, body string, into any, header ...string) {
	t.Helper()
	got, err := ask(t.Context(), http.DefaultClient, method, p.URL(path), body, header...)
	if err == nil {
		err = got.Decode(http.StatusCreated, into)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// answer holds the answer to a request.
type answer = process.Answer

// ask makes a request and reads the answer to its end.
var ask = process.Ask

// state holds the figures of purser and of the system about purser.
type state struct {
	Begun, Settled, Confirmed, Open float64
	Goroutines, Files, HeapMB       float64
	OwnMB, MappedMB                 float64 // resident: its own, and pages of files
	FileMB                          float64
	CPU                             time.Duration
}

func (p *purser) look(ctx context.Context) (s state, err error) {
	got, err := ask(ctx, http.DefaultClient, http.MethodGet, p.MetricsURL(), "")
	if err != nil || got.Status != http.StatusOK {
		return s, fmt.Errorf("metrics: %d %w", got.Status, err)
	}
	s.Open = -1 // unknown: purser leaves out what it cannot count in time
	for line := range strings.Lines(got.Body) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		switch {
		case name == "go_goroutines":
			s.Goroutines = value
		case name == "process_open_fds":
			s.Files = value
		case name == "go_memstats_heap_inuse_bytes":
			s.HeapMB = value / (1 << 20)
		case name == `purser_payments{label="open"}`:
			s.Open = value
		case strings.HasPrefix(name, "purser_payments_begun_total"):
			s.Begun += value
		case strings.HasPrefix(name, `purser_payments_total{`) && strings.Contains(name, `outcome="settled"`):
			s.Settled += value
		case strings.HasPrefix(name, `purser_payments_total{`) && strings.Contains(name, `outcome="confirmed"`):
			s.Confirmed += value
		}
	}
	return s, errors.Join(p.lookAtProcess(&s), p.lookAtFile(&s))
}

func (p *purser) lookAtFile(s *state) error {
	info, err := os.Stat(p.File())
	if err == nil {
		s.FileMB = float64(info.Size()) / (1 << 20)
	}
	return err
}

// clockTicks is the number of units of /proc/PID/stat in a second: 100 on every Linux.
const clockTicks = 100

func (p *purser) lookAtProcess(s *state) error {
	proc := "/proc/" + strconv.Itoa(p.Cmd.Process.Pid)
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch {
		case err != nil:
		case name == "RssAnon":
			s.OwnMB = kib / 1024
		case name == "RssFile":
			s.MappedMB = kib / 1024
		}
	}
	stat, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return err
	}
	// The second field is the program's name in parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 14 - 3, 15 - 3
	for _, i := range []int{user, system} {
		ticks, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return err
		}
		s.CPU += time.Duration(ticks) * time.Second / clockTicks
	}
	return nil
}
