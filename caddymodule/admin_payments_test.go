package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

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
			ID: id, KeyID: keyID, Door: pay.DoorProxy, Task: fmt.Sprintf("task-%d", i), Host: "api.example.com", RequestURL: "https://api.example.com/x?token=t0ken",
			Terms: pay.Terms{
				Settlement: pay.SettleSeller, Network: "base", Scheme: "exact", Asset: x402.Networks()[0].Assets[0].Address,
				PayTo: x402.Address{7}, Amount: x402.NewAmount(10_000),
			},
			Currency: "USDC", Created: now, Identity: pay.HashOf(id), State: pay.Open,
			Authorization: x402.Authorization{Nonce: x402.Nonce(pay.HashOf(id)), ValidBefore: uint64(now.Add(time.Minute).Unix())},
			Check:         now.Add(100 * 24 * time.Hour), // not while the test looks
		}
		place := pay.Limit{Reservation: pay.Reservation{Counter: pay.PlaceCounter(keyID, now), Amount: x402.NewAmount(1), Release: pay.ReleasePlace}}
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

func TestAdminPayments(t *testing.T) {
	s := newSite(t)
	socket, log := adminSite(t, s)
	if code, text := adminCall(t, socket, "GET", "/purser/payments"); code != 200 || text != `{"payments":[]}`+"\n" {
		t.Errorf("%d %s", code, text)
	}
	ids := journaled(t, time.Hour, time.Hour, 0, time.Hour)
	code, text := adminCall(t, socket, "GET", "/purser/payments?state=open&limit=3")
	page := decode[adminapi.Payments](t, text)
	if code != 200 || len(page.Payments) != 3 || page.Payments[0].ID != ids[3] || page.Next != ids[1] || strings.Contains(text, "t0ken") {
		t.Errorf("%d %s", code, text)
	}
	_, text = adminCall(t, socket, "GET", "/purser/payments?state=open&limit=3&before="+page.Next)
	if page := decode[adminapi.Payments](t, text); len(page.Payments) != 1 || page.Payments[0].ID != ids[0] || page.Next != "" {
		t.Errorf("%s", text)
	}
	code, text = adminCall(t, socket, "GET", "/purser/payments/"+ids[0])
	story := decode[adminapi.Story](t, text)
	if code != 200 || story.KeyID != "key-0" || !story.Signed || !story.Resolvable || len(story.Notes) != 1 || len(story.Reservations) != 1 ||
		story.RequestURL == "" || story.Lease != nil || story.Resolution != nil {
		t.Errorf("%d %s", code, text)
	}
	if low := strings.ToLower(text); strings.Contains(low, "516e") || strings.Contains(low, `"signature"`) || strings.Contains(low, "payload") {
		t.Errorf("it could be paid with: %s", text)
	}

	send := func(id, body string) (int, string) {
		t.Helper()
		return adminSend(t, socket, "POST", "/purser/payments/"+id+"/resolve", "application/json", body)
	}
	tx := "0x" + strings.Repeat("ab", 32)
	settled := fmt.Sprintf(`{"as":"settled","reason":"on the explorer","transaction":%q,"by":"ann"}`, tx)
	for _, c := range []struct {
		id, body string
		code     int
		want     string
	}{
		{ids[0], `{"as":"void"}`, 400, "reason"},
		{ids[0], `{"as":"open","reason":"x"}`, 400, "settled or void"},
		{ids[0], `{"as":"void","reason":"x","transactions":"0x"}`, 400, "unknown field"},
		{ids[0], `{"as":"settled","reason":"x","transaction":"0x12"}`, 400, "transaction"},
		{"nobody", `{"as":"void","reason":"x"}`, 404, "not found"},
		{ids[2], `{"as":"void","reason":"x"}`, 409, "may still settle"},
		{ids[0], settled, 200, `"by":"ann"`},
		{ids[0], `{"as":"void","reason":"x"}`, 409, "it is settled"},
		{ids[1], settled, 409, "another payment"},
		{ids[1], `{"as":"void","reason":"the seller says so"}`, 200, `"reason":"the seller says so"`},
	} {
		if code, text := send(c.id, c.body); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d", c.body, code, text, c.code)
		}
	}
	for path, want := range map[string]int{
		"/purser/payments?state=lost": 400, "/purser/payments?limit=0": 400, "/purser/payments?limit=501": 400, "/purser/payments/nobody": 404,
	} {
		if code, text := adminCall(t, socket, "GET", path); code != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, _ := adminSend(t, socket, "POST", "/purser/payments/"+ids[3]+"/resolve", "text/plain", `{"as":"void","reason":"x"}`); code != 415 {
		t.Errorf("from a page: %d", code)
	}
	_, text = adminCall(t, socket, "GET", "/purser/payments?state=void")
	if page := decode[adminapi.Payments](t, text); len(page.Payments) != 1 || page.Payments[0].ID != ids[1] {
		t.Errorf("%s", text)
	}
	home := serving().home
	if err := home.store.(interface{ Check(context.Context) error }).Check(t.Context()); err != nil {
		t.Error(err)
	}
	_ = caddy.Stop()
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "the seller says so") {
		t.Errorf("the resolution is not in the log (%v)", err)
	}
}

func TestPaymentsCommand(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	admin := "--admin=unix/" + socket
	ids := journaled(t, time.Hour, time.Hour, 0)
	o := clitest.Run(t, nil, "payments", admin, "--state", "open", "--limit", "2")
	if o.Status != 0 || !strings.Contains(o.Stdout, ids[2]) || strings.Contains(o.Stdout, ids[0]) || !strings.Contains(o.Stdout, "0.01 USDC") ||
		!strings.Contains(o.Stderr, "there are more") {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
	}
	o = clitest.Run(t, nil, "payments", admin, "--json")
	var page adminapi.Payments
	if err := json.Unmarshal([]byte(o.Stdout), &page); err != nil || len(page.Payments) != 3 {
		t.Errorf("%v: %q, %q", err, o.Stdout, o.Stderr)
	}
	o = clitest.Run(t, nil, "payments", "show", ids[0], admin)
	if o.Status != 0 || !strings.Contains(o.Stdout, "token=t0ken") || strings.Contains(o.Stdout, "\x1b") {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"resolve", ids[0], "--as", "void"}, "--reason"},
		{[]string{"resolve", ids[0], "--as", "lost", "--reason", "x"}, "--as: settled or void"},
		{[]string{"resolve", ids[2], "--as", "void", "--reason", "x"}, "may still settle"},
		{[]string{"show", "nobody"}, "not found"},
		{[]string{"--state", "lost"}, "--state \"lost\" is none of open, settled"},
		{[]string{"--limit", "0"}, "--limit"},
	} {
		o := clitest.Run(t, nil, append([]string{"payments", admin}, c.args...)...)
		if o.Status != 1 || !strings.Contains(o.Stderr, c.want) {
			t.Errorf("%q: %d, %q, %q", c.args, o.Status, o.Stdout, o.Stderr)
		}
	}
	o = clitest.Run(t, nil, "payments", "resolve", ids[0], admin, "--as", "void", "--reason", "nothing came in")
	if o.Status != 0 || !strings.Contains(o.Stdout, "void") || !strings.Contains(o.Stdout, "nothing came in") {
		t.Errorf("%d, %q, %q", o.Status, o.Stdout, o.Stderr)
	}
	_, text := adminCall(t, socket, "GET", "/purser/payments/"+ids[0])
	if story := decode[adminapi.Story](t, text); story.Resolution == nil || story.Resolution.By == "" || story.State != pay.Void {
		t.Errorf("%s", text)
	}
	_, text = adminCall(t, socket, "GET", "/purser/audit?limit=1")
	if list := decode[adminapi.Audit](t, text).Audit; len(list) != 1 || list[0].Action != pay.ActionPaymentResolve || list[0].PaymentID != ids[0] ||
		list[0].By == "" || string(list[0].New) != `{"reason":"nothing came in","state":"void"}` {
		t.Errorf("%s", text)
	}
	o = clitest.Run(t, nil, "payments", "resolve", ids[1], admin, "--as", "settled", "--reason", "seen", "--transaction", "0x"+strings.Repeat("1", 64), "--json")
	var story adminapi.Story
	if err := json.Unmarshal([]byte(o.Stdout), &story); err != nil || story.State != pay.Settled || story.EventID == "" {
		t.Errorf("%v: %q, %q", err, o.Stdout, o.Stderr)
	}
}
