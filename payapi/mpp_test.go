package payapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// charge returns a challenge of MPP for a cent, as WWW-Authenticate has it.
func charge(id string, expires time.Time) string {
	request := `{"amount":"10000","currency":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","methodDetails":{"chainId":8453},"recipient":"0x00000000000000000000000000000000000A11cE"}`
	return fmt.Sprintf(`Payment id=%q, realm="shop.test", method="evm", intent="charge", request=%q, expires=%q`,
		id, base64.RawURLEncoding.EncodeToString([]byte(request)), expires.UTC().Format(time.RFC3339))
}

// credential reads the id of the challenge that an answer's credential is for, and its nonce.
func credential(t *testing.T, a answer) (id, nonce string) {
	t.Helper()
	text, is := strings.CutPrefix(a.text("paymentSignature"), "Payment ")
	plain, err := base64.RawURLEncoding.DecodeString(text)
	var c struct {
		Challenge struct{ ID string }
		Payload   struct{ Nonce string }
	}
	if err == nil {
		err = json.Unmarshal(plain, &c)
	}
	if err != nil || !is || a.text("paymentHeader") != "Authorization" {
		t.Fatalf("%v: %s", err, a.raw)
	}
	return c.Challenge.ID, c.Payload.Nonce
}

// Repeats get the same credential, whatever fresh challenge they bring. A challenge buys one thing.
func TestChargesAreRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Chain = &unmoved{traces: make(chan struct{}, 1000)} })
	key := w.payingKey()
	ask := func(id string, more ...any) answer {
		body := map[string]any{"paymentRequiredHeader": charge(id, w.clock.now().Add(5*time.Minute)), "requestUrl": "https://shop.test/x"}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return w.call("POST", "/v1/pay", key, body)
	}
	first := ask("a").is(200, "")
	id, nonce := credential(t, first)
	w.released(first.text("payment.id"))
	for _, fresh := range []string{"a", "b"} {
		again, same := credential(t, ask(fresh).is(200, ""))
		if again != id || same != nonce {
			t.Errorf("%s: the credential is for %s", fresh, again)
		}
	}
	taken := pay.ErrChallengeTaken.Error()
	ask("a", "requestUrl", "https://shop.test/y").is(409, taken)
	ask("c", "requestUrl", "https://shop.test/z", "settlement", "payer").is(400, "Unsupported payment scheme charge")
	id, _ = credential(t, ask("d", "requestUrl", "https://shop.test/k", "idempotencyKey", "k").is(200, ""))
	if again, _ := credential(t, ask("e", "requestUrl", "https://shop.test/k", "idempotencyKey", "k").is(200, "")); again != id {
		t.Errorf("under one key the credential is for %s", again)
	}
	ask("d", "requestUrl", "https://shop.test/k", "idempotencyKey", "l").is(409, taken)
}
