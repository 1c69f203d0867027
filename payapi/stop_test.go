package payapi_test

import (
	"testing"

	"github.com/purserpay/purser/pay"
)

const byPolicy = "Payment refused by policy"

func (w *world) stop(id string, do pay.Stop) {
	w.t.Helper()
	if _, err := w.books.StopKey(w.t.Context(), id, pay.KeyStop{Do: do, Reason: "too dear"}); err != nil {
		w.t.Fatal(err)
	}
}

func TestPausedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, other := w.payingKey(), w.payingKey()
	id := w.keyID(key)
	stored := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, "")
	w.facilitator.onSettle(hangUp)
	open := w.call("POST", "/v1/pay", key, order(6)).is(402, settleFailed).want("payment.state", "open").text("payment.id")
	w.released(open)
	w.facilitator.settle.Store(nil)
	handed := w.call("POST", "/v1/pay", key, order(7, "settlement", "seller")).is(200, "").text("payment.id")
	w.released(handed)

	w.stop(id, pay.StopPause)
	for _, extra := range [][]any{nil, {"settlement", "seller"}, {"idempotencyKey", "new"}} {
		w.call("POST", "/v1/pay", key, order(8, extra...)).is(402, byPolicy).want("rule", "paused").want("detail", "the key is paused: too dear")
	}
	if again := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, ""); again.raw != stored.raw {
		t.Errorf("the stored answer differs: %s", again.raw)
	}
	w.call("POST", "/v1/pay", key, order(6)).is(200, "").want("settled", true).want("payment.id", open)
	w.call("POST", "/v1/payments/"+handed+"/receipt", key, receipt(nil)).is(200, "").want("payment.state", "settled")
	w.call("GET", "/v1/payments?state=open", key, nil).is(200, "")
	w.call("GET", "/v1/spend", key, nil).is(200, "")
	w.call("GET", "/wallets/me", key, nil).is(200, "")
	w.call("POST", "/v1/pay", other, order(8)).is(200, "").want("settled", true)

	w.stop(id, pay.StopResume)
	w.call("POST", "/v1/pay", key, order(8)).is(200, "").want("settled", true)
}

func TestEverythingPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	stored := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, "")
	w.call("GET", "/health", "", nil).is(200, "").want("paused", nil)
	if _, err := w.books.PauseAll(t.Context(), "wallets are moved"); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{key, w.payingKey()} {
		w.call("POST", "/v1/pay", k, order(8)).is(402, byPolicy).want("rule", "paused").want("detail", "everything is paused: wallets are moved")
	}
	w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, "").want("payment.id", stored.text("payment.id"))
	health := w.call("GET", "/health", "", nil).is(200, "").want("ok", true)
	if health.text("paused.since") == "" || health.at("paused.reason") != nil {
		t.Error(health.raw)
	}
	if err := w.books.ResumeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.call("POST", "/v1/pay", key, order(8)).is(200, "").want("settled", true)
}

func TestRevokedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, id := w.payingKey(), ""
	id = w.keyID(key)
	paid := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, "").text("payment.id")
	w.stop(id, pay.StopPause)
	w.stop(id, pay.StopRevoke)
	const unknown = "API key not resolved"
	w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(401, unknown)
	w.call("POST", "/v1/pay", key, order(6)).is(401, unknown)
	w.call("POST", "/v1/payments/"+paid+"/receipt", key, receipt(nil)).is(401, unknown)
	for _, path := range []string{"/v1/payments?state=open", "/v1/payments/" + paid, "/v1/spend", "/wallets/me"} {
		w.call("GET", path, key, nil).is(401, unknown)
	}
	w.call("POST", "/wallets", key, nil).is(401, unknown)
	w.call("POST", "/api-keys", "", map[string]any{"key": key}).is(400, "That API key already exists")
	w.call("POST", "/v1/pay", key, order(6)).is(401, unknown)
}
