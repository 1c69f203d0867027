package payapi_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Credentials in requestUrl reach neither the books nor the log, and do not change the identity of
// a repeat.
func TestCredentialsInRequestURL(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "purser.db")
	w := newWorld(t, onDisk(file))
	key := w.payingKey()
	const secret = "correct-horse"
	with := strings.Replace(bought, "https://", "https://agent:"+secret+"@", 1)
	first := w.call("POST", "/v1/pay", key, order(5, "requestUrl", with, "idempotencyKey", "one")).is(200, "")
	for _, again := range []string{bought, strings.Replace(with, secret, "battery-staple", 1)} {
		w.call("POST", "/v1/pay", key, order(5, "requestUrl", again, "idempotencyKey", "one")).is(200, "").want("payment.id", first.text("payment.id"))
	}
	// The seller's own URL may contain them too.
	resource := requirement(map[string]any{"maxAmountRequired": "6", "resource": strings.Replace(bought, "https://", "https://agent@", 1) + "?2"})
	w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": v1(resource)}).is(200, "")
	for path, list := range map[string]string{"/v1/payments": "payments", "/v1/spend": "events"} {
		rows := w.call("GET", path, key, nil).is(200, "").list(list)
		if len(rows) != 2 || rows[1]["request_url"] != bought || rows[0]["request_url"] != bought+"?2" {
			t.Errorf("%s: %v", path, rows)
		}
	}
	books, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(books, []byte(secret)) || strings.Contains(w.logs.String(), secret) {
		t.Error("the credentials are in the books or in the log")
	}
}
