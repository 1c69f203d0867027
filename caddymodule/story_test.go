package caddymodule

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// The story of a payment is in order, and says what is known and has no time.
func TestStory(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return time.Date(2026, 11, 15, 12, minutes, 0, 0, time.UTC) }
	p := &pay.Payment{
		ID: "p1", Door: pay.DoorProxy, Created: at(0), Closed: at(9), State: pay.Settled, Transaction: "0xab", Signature: &x402.Signature{},
		Notes:      []pay.Note{{At: at(12), Text: "the chain has another transaction"}, {At: at(1), Text: "no answer: timeout"}},
		Resolution: &pay.Resolution{At: at(7), As: pay.Void, Reason: "nothing came", By: "ann"}, Answered: true, Confirmed: true,
	}
	var out bytes.Buffer
	if err := storyOf(p, at(20)).print(&out); err != nil {
		t.Fatal(err)
	}
	text, from := out.String(), 0
	for _, part := range []string{
		"2026-11-15T12:00:00Z", "journaled, through the door proxy", "12:01:00Z", "no answer: timeout", "12:07:00Z", "ann", "void: nothing came",
		"12:09:00Z", "settled by transaction 0xab", "12:12:00Z", "another transaction",
		"signed, and it left", "the caller got its answer", "the chain has it for good",
	} {
		i := strings.Index(text[from:], part)
		if i < 0 {
			t.Fatalf("%q is missing, or too early, in\n%s", part, text)
		}
		from += i + len(part)
	}
}

// With a plain log, as somebody writes who has not read the shipped Caddyfile, purser's own lines
// tell a payment from beginning to end, at every level, and give nothing away.
func TestLogOfAPayment(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	t.Setenv("PURSER_INTERNAL_SECRET", secretValue("internal"))
	s := newSite(t)
	logged := filepath.Join(t.TempDir(), "log")
	mustLoad(t, replaceOnce(t, s.caddyfile(), "level WARN", "level DEBUG\n\t\toutput file "+logged))
	key := newKey(t, s.url())
	body := strings.Replace(payBody(2_500, "https://api.example.com/v2?token=t0ken-in-a-query"), "{", `{"idempotencyKey":"secret-idempotency",`, 1)
	paid := mustCall(t, 200, "POST", s.url()+"/v1/pay", key, body)
	id, _ := paid["payment"].(map[string]any)["id"].(string)
	_ = caddy.Stop()
	text, err := os.ReadFile(logged)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"payment begun", "payment signed", "payment leaves", "payment settled"} {
		found := false
		for line := range strings.Lines(string(text)) {
			found = found || strings.Contains(line, `"`+message+`"`) && strings.Contains(line, fmt.Sprintf(`"payment":%q`, id))
		}
		if !found {
			t.Errorf("no %q of payment %q", message, id)
		}
	}
	header, _ := paid["paymentHeader"].(string)
	for what, secret := range map[string]string{
		"key": key, "payload": header, "query": "t0ken-in-a-query", "internal secret": secretValue("internal"), "idempotency key": "secret-idempotency",
	} {
		if secret == "" || strings.Contains(string(text), secret) {
			t.Errorf("the %s is in the log, or was none", what)
		}
	}
}
