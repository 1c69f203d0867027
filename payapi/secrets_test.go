package payapi_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

// No secret is ever in the log. In answers it is only where it belongs.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const own = "pk_my-own-key-of-the-tests"
	w.call("POST", "/api-keys", "", map[string]any{"key": own}).is(201, "")
	claimed := w.call("POST", "/api-keys", "", `{"organization_id":"org"}`, "X-Internal-Secret", internalSecret).is(201, "").text("key")
	wallet := w.call("POST", "/wallets", own, nil).is(201, "").text("id")
	private, err := w.store.WalletSecret(t.Context(), wallet)
	if err != nil {
		t.Fatal(err)
	}
	created := w.answers.String() // the only answer with a key

	paid := w.call("POST", "/v1/pay", own, order(1)).is(200, "").text("paymentSignature")
	payload, err := x402.DecodePayload(paid)
	if err != nil {
		t.Fatal(err)
	}
	_, signature, err := payload.Authorization()
	if err != nil {
		t.Fatal(err)
	}

	// A facilitator returns everything that it was sent, in every field it can.
	handedBack := ""
	w.facilitator.onVerify(func(rw http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		_, _ = fmt.Fprint(body, r.Header)
		handedBack = body.String()
		fmt.Fprintf(rw, `{"isValid":false,"invalidReason":%q,"invalidMessage":%q,"error":{"headers":%q}}`, handedBack, handedBack, handedBack)
	})
	w.call("POST", "/v1/pay", own, order(2)).is(402, verifyFailed)
	w.facilitator.onVerify(func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(401)
		fmt.Fprintf(rw, `{"message":%q}`, "no such key: "+r.Header.Get("Authorization"))
	})
	w.call("POST", "/v1/pay", own, order(3)).is(402, verifyFailed)
	if !strings.Contains(handedBack, facilitatorKey) {
		t.Fatal("the stand-in did not get the key, so it proves nothing")
	}

	// Errors before the payment.
	w.call("POST", "/api-keys", "", map[string]any{"key": own}).is(400, "That API key already exists")
	w.call("POST", "/api-keys", "", map[string]any{"key": claimed + " "}).is(400, keyFailed)
	w.call("POST", "/api-keys", "", `{"plan":"x","organization_id":"org"}`, "X-Internal-Secret", internalSecret).is(400, keyFailed)
	w.call("GET", "/v1/spend", own+"x", nil).is(401, "API key not resolved")
	w.call("GET", "/wallets/me", own, nil).is(200, "")
	w.call("GET", "/v1/payments", own, nil).is(200, "")
	w.call("GET", "/v1/spend", own, nil).is(200, "")
	w.call("GET", "/health", own, nil).is(200, "")
	w.call("GET", "/nothing?key="+own, own, nil).is(404, "Not found")
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.call("POST", "/v1/pay", own, order(4)).is(503, "Service unavailable")
	w.call("POST", "/api-keys", "", map[string]any{"key": own}).is(503, keyFailed)

	logs := w.logs.String()
	answers := strings.TrimPrefix(w.answers.String(), created)
	answers = strings.ReplaceAll(answers, "/nothing?key="+own, "") // the test's own request
	if logs == "" {
		t.Fatal("nothing logged")
	}
	text := signature.String()
	for name, secret := range map[string]string{
		"own key": own, "generated key": claimed, "internal secret": internalSecret, "facilitator key": facilitatorKey,
		"private key": hex.EncodeToString(private), "payload": paid, "signature": text[2:66],
	} {
		if strings.Contains(logs, secret) {
			t.Errorf("%s in the log:\n%s", name, logs)
		}
		if name != "payload" && strings.Contains(answers, secret) {
			t.Errorf("%s in an answer:\n%s", name, answers)
		}
	}
	if strings.Count(answers, paid) != 1 {
		t.Error("the payload was shown elsewhere than in its own answer")
	}
}
