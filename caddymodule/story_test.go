package caddymodule

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// With a plain log, which does not follow the shipped Caddyfile, purser's own lines
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
