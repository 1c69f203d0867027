package caddymodule

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/pgtest"
)

// url is the address of a node's door.
func (w *workplace) url() string {
	port, _, _ := strings.Cut(strings.TrimPrefix(w.ports, "PURSER_PORT="), "\n")
	return "http://127.0.0.1:" + port
}

// Two pursers on one database have the same keys and pauses, and one budget.
func TestNodesOfOneDatabase(t *testing.T) {
	t.Parallel()
	server, facilitator := pgtest.Start(t), newStandIn(t)
	database := server.URL
	settings := func(more ...string) []string {
		return append([]string{"PURSER_STORE=postgres", "PURSER_FACILITATOR_URL=" + facilitator.URL}, more...)
	}
	master := "PURSER_MASTER_KEY=" + hex.EncodeToString([]byte(strings.Repeat("k", 32)))
	a, b := newWorkplace(t), newWorkplace(t)
	a.variables(t, settings(master, "DATABASE_URL="+database)...)
	a.run(t)

	b.variables(t, settings("DATABASE_URL="+database)...)
	if o := b.do(t, "run"); o.Status == 0 || !strings.Contains(o.Stderr, "PURSER_MASTER_KEY") || !strings.Contains(o.Stderr, "missing") {
		t.Fatalf("a node without the master key: %+v", o)
	}
	b.write(t, "database.url", database+"\n")
	b.variables(t, settings(master, "DATABASE_URL_FILE=database.url")...)
	node := b.run(t)

	key := mustCall(t, http.StatusCreated, "POST", a.url()+"/api-keys", "", `{"label":"shared"}`)
	secret, id := key["key"].(string), key["id"].(string)
	mustCall(t, http.StatusCreated, "POST", b.url()+"/wallets", secret, `{"network":"base"}`)
	if o := a.do(t, "limits", id, "--daily-budget", "1"); o.Status != 0 {
		t.Fatalf("limits: %+v", o)
	}
	pay := func(at *workplace, amount, want int, request string) map[string]any {
		t.Helper()
		return mustCall(t, want, "POST", at.url()+"/v1/pay", secret, payBody(amount, "https://api.example.com/"+request))
	}
	pay(a, 600_000, http.StatusOK, "1")
	pay(b, 600_000, http.StatusPaymentRequired, "2")
	pay(b, 400_000, http.StatusOK, "3")
	pay(a, 1, http.StatusPaymentRequired, "4")

	if o := a.do(t, "limits", id, "--daily-budget", "2"); o.Status != 0 {
		t.Fatalf("limits: %+v", o)
	}
	if o := a.do(t, "pause", "--reason", "test"); o.Status != 0 {
		t.Fatalf("pause: %+v", o)
	}
	if _, answer, err := call(t.Context(), "POST", b.url()+"/v1/pay", secret, payBody(1, "https://api.example.com/5")); err != nil || !strings.Contains(fmt.Sprint(answer), "pause") {
		t.Errorf("the other node does not know the pause: %v %v", answer, err)
	}
	if o := b.do(t, "resume"); o.Status != 0 {
		t.Fatalf("resume: %+v", o)
	}
	pay(a, 100_000, http.StatusOK, "6")

	checked := func(want int, text string) {
		t.Helper()
		for _, o := range []clitest.Outcome{
			a.do(t, "check"), b.do(t, "check", "--json"), a.do(t, "check", "--database"), b.do(t, "check", "--database", "--json"),
		} {
			if o.Status != want || !strings.Contains(o.Stdout, text) || !strings.Contains(o.Stdout, "postgres://") {
				t.Errorf("check: %+v", o)
			}
		}
	}
	checked(0, "settled")
	server.Exec(t, `INSERT INTO other_counters VALUES ('lost', 1)`)
	checked(1, "counter lost is 1")
	server.Exec(t, `DELETE FROM other_counters WHERE name = 'lost'`)

	// A node with another limit is named, on each of the two, until it has the same one.
	b.variables(t, settings(master, "DATABASE_URL_FILE=database.url", "PURSER_DAILY_BUDGET=3")...)
	if o := b.do(t, "reload"); o.Status != 0 {
		t.Fatalf("reload: %+v", o)
	}
	said := func(want bool) {
		t.Helper()
		end := time.Now().Add(2 * time.Minute) // nodes tell each other every ten seconds
		for _, w := range []*workplace{a, b} {
			for strings.Contains(w.do(t, "status").Stdout, "daily_budget is ") != want {
				if time.Now().After(end) {
					t.Fatalf("the difference is told: %t: %+v", !want, w.do(t, "status"))
				}
				time.Sleep(time.Second)
			}
		}
	}
	said(true)

	// A reload notices another password, and does not say it.
	b.write(t, "database.url", database+"&password=hush-hush\n")
	if o := b.do(t, "reload"); o.Status == 0 || !strings.Contains(o.Stderr, "those change with a restart") || strings.Contains(o.Stderr, "hush-hush") {
		t.Fatalf("reload: %+v", o)
	}
	pay(b, 100_000, http.StatusOK, "7")
	if said := node.said(); strings.Contains(said, "hush-hush") || !strings.Contains(b.do(t, "status").Stdout, "postgres") {
		t.Errorf("the password is in the log, or the store's kind is not in the status:\n%s", said)
	}
	if n := facilitator.settled.Load(); n != 4 {
		t.Errorf("%d payments were settled", n)
	}
}
