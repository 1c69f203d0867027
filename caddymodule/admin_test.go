package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// adminCall asks the admin endpoint on a socket.
func adminCall(t *testing.T, socket, method, path string) (int, string) {
	t.Helper()
	return adminSend(t, socket, method, path, "application/json", "")
}

// adminSend is adminCall with a body.
func adminSend(t *testing.T, socket, method, path, contentType, body string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://admin"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// adminSite loads a site with an admin endpoint on a socket, and a log of everything.
func adminSite(t *testing.T, s *site) (socket, log string) {
	t.Helper()
	socket, log = filepath.Join(t.TempDir(), "admin.sock"), filepath.Join(t.TempDir(), "log")
	text := replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600")
	mustLoad(t, replaceOnce(t, text, "level WARN", "level DEBUG\n\t\toutput file "+log))
	return socket, log
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestAdminBeforeTheStart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	mustLoad(t, "{\n\tadmin unix/"+socket+"|0600\n\tpersist_config off\n\tlog default {\n\t\tlevel ERROR\n\t\toutput discard\n\t}\n}\n")
	for method, path := range map[string]string{"POST": "/purser/exec", "GET": "/purser/keys"} {
		if code, text := adminCall(t, socket, method, path); code != 503 || !strings.Contains(text, "not started") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}

// bookSite is a running purser whose facilitator settles everything.
func bookSite(t *testing.T) (s *site, socket string) {
	t.Helper()
	s = newSite(t)
	s.app = "facilitator http {\n\t\t\turl " + newStandIn(t).URL + "\n\t\t}"
	s.route = "purser_proxy\n\t\tpurser_api"
	socket, _ = adminSite(t, s)
	return s, socket
}

// told runs a command that must succeed, and returns what it prints.
func told(t *testing.T, socket string, args ...string) string {
	t.Helper()
	o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, args...)
	if o.Status != 0 {
		t.Fatalf("%v: %d, %s%s", args, o.Status, o.Stdout, o.Stderr)
	}
	return o.Stdout
}

// said demands an outcome of a command.
func said(t *testing.T, o clitest.Outcome, status int, stdout, stderr string) {
	t.Helper()
	if o.Status != status || !strings.Contains(o.Stdout, stdout) || (stdout == "") != (o.Stdout == "") ||
		!strings.Contains(o.Stderr, stderr) || (stderr == "") != (o.Stderr == "") {
		t.Errorf("%d, %q, %q; want status %d, %q, %q", o.Status, o.Stdout, o.Stderr, status, stdout, stderr)
	}
}

// gauge reads a metric without labels.
func gauge(t *testing.T, name string) float64 {
	t.Helper()
	now := caddy.ActiveContext()
	families, err := now.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// journaled writes payments of some age into the store of the running site, their leases
// released, the first one first. Each has a task of its own: task-0, task-1 and so on.
func journaled(t *testing.T, ages ...time.Duration) (ids []string) {
	t.Helper()
	home := serving().home
	for i, age := range ages {
		now := time.Now().Add(-age)
		id := uuid.Must(uuid.NewV7()).String()
		keyID := fmt.Sprintf("key-%d", i)
		row := &pay.Payment{
			ID: id, KeyID: keyID, Door: policy.DoorProxy, Task: fmt.Sprintf("task-%d", i), Host: "api.example.com", RequestURL: "https://api.example.com/x?token=t0ken",
			Terms: pay.Terms{
				Settlement: pay.SettleSeller, Network: "base", Scheme: "exact", Asset: x402.Networks()[0].Assets[0].Address,
				PayTo: x402.EVMAddress([20]byte{7}), Amount: money.New(10_000),
			},
			Currency: "USDC", Created: now, Identity: pay.HashOf(id), State: pay.Open,
			Authorization: x402.Authorization{Nonce: x402.Nonce(pay.HashOf(id)), ValidBefore: uint64(now.Add(time.Minute).Unix())},
			Check:         now.Add(100 * 24 * time.Hour), // not while the test looks
		}
		place := pay.Limit{Reservation: pay.Reservation{Counter: pay.PlaceCounter(keyID, now), Amount: money.New(1), Release: pay.ReleasePlace}}
		begun, err := home.store.Begin(t.Context(), &pay.Begin{
			Now: time.Now(), Owner: "test", CallIdentity: pay.CallIdentity{KeyID: keyID, Identity: row.Identity},
			Judgement: pay.Judgement{Place: place}, Proposal: pay.Proposal{New: row},
		})
		if err != nil {
			t.Fatal(err)
		}
		sig := x402.Signature{0x51, 0x6e}
		_, _, err = home.store.Record(t.Context(), pay.Outcome{
			PaymentID: id, Fence: begun.Payment.Lease.Fence, At: now, Release: true, Signature: &sig, Note: "seller answered \x1b[31m500",
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}
