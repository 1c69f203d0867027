package payapi_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestSellerMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	first := w.call("POST", "/v1/pay", key, order(5, "settlement", "seller")).is(200, "").
		want("settled", false).want("transaction", "").want("payment.state", "open").want("paymentHeader", "X-PAYMENT")
	id := first.text("payment.id")
	if v, s := w.facilitator.verified.Load(), w.facilitator.settled.Load(); v != 1 || s != 0 {
		t.Errorf("%d verified, %d settled", v, s)
	}
	w.released(id)
	// Until the receipt is posted, the client may not have received the goods.
	again := w.call("POST", "/v1/pay", key, order(5, "settlement", "seller")).is(200, "").want("payment.id", id)
	if again.text("paymentSignature") != first.text("paymentSignature") {
		t.Error("another payload for the same purchase")
	}
	w.released(id)
	w.call("GET", "/v1/spend", key, nil).is(200, "").want("events", []any{}).want("pending", map[string]any{"count": 1, "amount": "5"})
	tx := transactionOf(id)
	w.call("POST", "/v1/payments/"+id+"/receipt", key, receipt(map[string]any{"transaction": tx})).is(200, "").
		want("payment.state", "settled").want("payment.transaction", tx)
	w.call("GET", "/v1/spend", key, nil).is(200, "").want("pending", map[string]any{"count": 0, "amount": "0"})
	next := w.call("POST", "/v1/pay", key, order(5, "settlement", "seller")).is(200, "").want("settled", false)
	if next.text("payment.id") == id {
		t.Error("a receipted payment was handed out again")
	}
}

func TestSellerModeSettledMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	body := order(5, "settlement", "seller", "idempotencyKey", "k")
	id := w.call("POST", "/v1/pay", key, body).is(200, "").want("settled", false).text("payment.id")
	w.released(id)
	tx := transactionOf(id)
	w.call("POST", "/v1/payments/"+id+"/receipt", key, receipt(map[string]any{"transaction": tx})).is(200, "")
	w.call("POST", "/v1/pay", key, body).is(200, "").want("settled", true).want("transaction", tx).want("payment.id", id)
}

func TestSellerModeVerification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"insufficient_funds"}`))
	a := w.call("POST", "/v1/pay", key, order(5, "settlement", "seller")).is(402, verifyFailed).want("payment.flags", []string{"refused"})
	if strings.Contains(a.raw, "paymentSignature") {
		t.Error("handed out: " + a.raw)
	}
	w.facilitator.onVerify(hangUp)
	w.call("POST", "/v1/pay", key, order(6, "settlement", "seller")).is(200, "").want("settled", false)
}

// receipt returns a body of POST /receipt; changes overwrite members of the receipt.
func receipt(changes map[string]any) map[string]any {
	return map[string]any{"receipt": encode(overwrite(map[string]any{
		"success": true, "transaction": "0x" + strings.Repeat("cd", 32), "network": "eip155:8453",
	}, changes))}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, other := w.payingKey(), w.payingKey()
	id := w.call("POST", "/v1/pay", key, order(5, "settlement", "seller")).is(200, "").text("payment.id")
	path := "/v1/payments/" + id + "/receipt"
	for name, body := range map[string]any{
		"none": nil, "empty": `{"receipt":""}`, "type": `{"receipt":{"success":true}}`, "garbage": `{"receipt":"!!!"}`, "no JSON": `{`,
		"no success": receipt(map[string]any{"success": nil}), "success type": receipt(map[string]any{"success": "true"}),
		"array": map[string]any{"receipt": encode([]int{1})}, "transaction type": receipt(map[string]any{"transaction": 5}),
	} {
		if a := w.call("POST", path, key, body); a.status != 400 || a.text("error") != "Invalid receipt" {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	w.call("POST", path, other, receipt(nil)).is(404, "Payment not found")
	w.call("POST", "/v1/payments/"+uuid.NewString()+"/receipt", key, receipt(nil)).is(404, "Payment not found")
	w.call("POST", "/v1/payments/nonsense/receipt", key, receipt(nil)).is(404, "Payment not found")
	for name, changes := range map[string]map[string]any{
		"failure": {"success": false, "errorReason": "insufficient_funds"}, "network": {"network": "solana"}, "payer": {"payer": seller},
		"amount": {"amount": "4"}, "transaction": {"transaction": "0x12"}, "no transaction": {"transaction": ""},
	} {
		if a := w.call("POST", path, key, receipt(changes)).is(200, ""); a.text("payment.state") != "open" {
			t.Errorf("%s closed it: %s", name, a.raw)
		}
	}
	w.call("POST", path, key, receipt(map[string]any{"network": "base", "amount": "5"})).is(200, "").
		want("payment.state", "settled").want("payment.transaction", "0x"+strings.Repeat("cd", 32))
	w.call("POST", path, key, receipt(nil)).is(200, "").want("payment.state", "settled") // a second time
	events := w.call("GET", "/v1/spend", key, nil).list("events")
	if len(events) != 1 || events[0]["payment_id"] != id || events[0]["amount"] != "5" {
		t.Errorf("events %v", events)
	}
	// A transaction pays once.
	second := w.call("POST", "/v1/pay", other, order(5, "settlement", "seller")).is(200, "").text("payment.id")
	w.call("POST", "/v1/payments/"+second+"/receipt", other, receipt(nil)).is(200, "").want("payment.state", "open")
}

// The seller's signed receipt, in a receipt that a client posts, is in answers about the payment alone.
func TestSignedReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	answered := w.call("POST", "/v1/pay", key, order(5, "settlement", "seller")).is(200, "")
	id := answered.text("payment.id")
	row := w.released(id)
	payload, err := json.Marshal(map[string]any{
		"version": 1, "network": "eip155:8453", "resourceUrl": bought, "payer": row.Authorization.From.String(), "issuedAt": row.Created.Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	jws := "e30." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln"
	extensions := map[string]any{"offer-receipt": map[string]any{"info": map[string]any{"receipt": map[string]any{"format": "jws", "signature": jws}}}}
	path := "/v1/payments/" + id
	for _, a := range []answer{w.call("POST", path+"/receipt", key, receipt(map[string]any{"extensions": extensions})), w.call("GET", path, key, nil)} {
		a.is(200, "").want("payment.signedReceipt.verified", false).want("payment.signedReceipt.receipt.signature", jws)
	}
	if list := w.call("GET", "/v1/payments", key, nil).is(200, ""); strings.Contains(list.raw, "signedReceipt") {
		t.Error("in a list: " + list.raw)
	}
}
