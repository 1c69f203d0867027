package pay_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// identified is a request for a challenge that advertises the extension payment-identifier.
func identified(r pay.Request, extension string) pay.Request {
	r.Challenge.Extensions = json.RawMessage(`{"payment-identifier":` + extension + `}`)
	return r
}

// A seller that asks for an id gets the payment's, in each payload of it alike.
func TestPayloadNamesThePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := identified(w.proxied("https://a.example/x", "100", ""), `{"info":{"required":true}}`)
	a := w.mustOpen(r)
	id, sent := a.Payment().ID, a.Payload()
	if want := `"extensions":{"payment-identifier":{"info":{"id":"` + id + `","required":true}}}`; !strings.Contains(string(sent.JSON), want) {
		t.Fatalf("payload %s, want %s", sent.JSON, want)
	}
	a.Finish(false)
	w.quiet()
	w.restart()
	if kept := must(payloadOf(w.payment(id))); kept.Header() != sent.Header() {
		t.Fatalf("after a restart %s, want %s", kept.JSON, sent.JSON)
	}

	// Whatever the seller says of ids by then.
	for _, extension := range []string{`{"info":{"required":false,"new":1}}`, `{"info":{"required":true},"schema":{"not":{}}}`, `null`} {
		again := w.mustOpen(identified(r, extension))
		if again.Payment().ID != id || again.Payload().Header() != sent.Header() {
			t.Errorf("%s: the repeat sends %s, want %s", extension, again.Payload().JSON, sent.JSON)
		}
		again.Finish(false)
		w.quiet()
	}
	w.checkBooks()
}

// Where an id is required that cannot be given, nothing is journaled.
func TestImpossibleID(t *testing.T) {
	t.Parallel()
	const schema = `"schema":{"properties":{"id":{"pattern":"^pay_[0-9a-f]{32}$"}}}`
	w := newWorld(t, nil)
	for name, r := range map[string]pay.Request{
		"proxy":         w.proxied("https://a.example/x", "100", ""),
		"REST":          w.rest(pay.SettleSeller, "https://a.example/x", "100", ""),
		"with a key":    w.proxied("https://a.example/y", "100", "order-1"),
		"payer settles": w.rest(pay.SettlePayer, "https://a.example/z", "100", ""),
	} {
		_, err := w.payer.Open(t.Context(), identified(r, `{"info":{"required":true},`+schema+`}`))
		unsupported, _ := errors.AsType[*x402.UnsupportedError](err)
		if unsupported == nil || unsupported.Kind != "extension" || pay.Code(err) != pay.CodeUnsupported || !strings.Contains(err.Error(), "pattern") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all := w.store.payments(); len(all) != 0 {
		t.Fatalf("journaled %+v", all)
	}
	a := w.mustOpen(identified(w.proxied("https://a.example/x", "100", ""), `{"info":{"required":false},`+schema+`}`))
	if strings.Contains(string(a.Payload().JSON), a.Payment().ID) {
		t.Errorf("an id that the schema forbids: %s", a.Payload().JSON)
	}
	a.Finish(true)
}
