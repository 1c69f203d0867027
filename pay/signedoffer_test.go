package pay_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// soldBy is a request for a challenge of a seller that signs.
func soldBy(r pay.Request, s x402test.Seller) pay.Request {
	r.Challenge.Accepts = append([]x402.Requirement(nil), r.Challenge.Accepts...)
	one := &r.Challenge.Accepts[0]
	one.Raw = json.RawMessage(strings.Replace(string(one.Raw), testSeller, s.Address().String(), 1))
	one.PayTo = s.Address()
	return r
}

func offerOf(r pay.Request, until int64) x402test.Fields {
	one := r.Challenge.Accepts[0]
	return x402test.Fields{
		"version": 1, "resourceUrl": r.Challenge.ResourceURL, "scheme": one.Scheme, "network": one.Network, "asset": one.Asset.String(),
		"payTo": one.PayTo.String(), "amount": one.Amount.String(), "validUntil": until,
	}
}

// What contradicts the seller's signature is refused before anything is journaled, at each door.
func TestSignedOfferContradicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s, thief := x402test.NewSeller(t), x402test.NewSeller(t)
	now := w.chain.clock().Unix()
	for door, r := range map[string]pay.Request{
		"proxy":         soldBy(w.proxied("https://a.example/x", "100", ""), s),
		"with a key":    soldBy(w.proxied("https://a.example/y", "100", "order-1"), s),
		"REST":          soldBy(w.rest(pay.SettleSeller, "https://a.example/x", "100", ""), s),
		"payer settles": soldBy(w.rest(pay.SettlePayer, "https://a.example/z", "100", ""), s),
	} {
		terms := offerOf(r, now+60)
		for rule, offers := range map[string][]any{
			"offer-differs":    {s.Offer(terms.With("amount", "99"))},
			"offer-expired":    {s.Offer(terms.With("validUntil", now-1))},
			"offer-signature":  {thief.Offer(terms)},
			"offer-unreadable": {s.Offer(terms).With("payload", 1)},
		} {
			r.Challenge.Extensions = x402test.Extensions(t, "offers", offers)
			_, err := w.payer.Open(t.Context(), r)
			refused, _ := errors.AsType[*pay.PolicyError](err)
			if refused == nil || refused.Rule != rule || pay.Code(err) != pay.CodePolicy {
				t.Errorf("%s, %s: %v", door, rule, err)
			}
		}
	}
	if all := w.store.payments(); len(all) != 0 {
		t.Fatalf("journaled %+v", all)
	}
}

// The operator names the addresses that sign for sellers paid at another one, for offers and receipts.
func TestOfferSigners(t *testing.T) {
	t.Parallel()
	s, signer := x402test.NewSeller(t), x402test.NewSeller(t)
	w := newWorld(t, func(o *pay.Options) { o.DefaultPolicy.OfferSigners = []x402.Address{signer.Address()} })
	r := soldBy(w.proxied("https://a.example/x", "100", ""), s)
	r.Challenge.Extensions = x402test.Extensions(t, "offers", []any{signer.Offer(offerOf(r, 0))})
	a := w.mustOpen(r)
	tx := w.sellerMoves(a.Payload())
	a.Receipt(receiptFor(t, tx, signer.Receipt(x402test.Fields{
		"version": 1, "network": "eip155:8453", "resourceUrl": r.Challenge.ResourceURL, "payer": a.Payment().Authorization.From.String(),
		"issuedAt": w.chain.clock().Unix(),
	})))
	a.Finish(true)
	w.quiet()
	if p := w.payment(a.Payment().ID); p.SignedReceipt == nil || !x402.VerifiedReceipt(p.SignedReceipt) {
		t.Errorf("receipt %s", p.SignedReceipt)
	}
	own := w.key
	own.Policy = &policy.Policy{OfferSigners: []x402.Address{s.Address()}}
	r.Key, r.URL, r.HTTP = own, "https://a.example/y", &pay.HTTPRequest{Method: "GET", URL: "https://a.example/y"}
	if _, err := w.payer.Open(t.Context(), r); pay.Code(err) != pay.CodePolicy {
		t.Errorf("a key with other signers of its own: %v", err)
	}
}

// A signed offer leaves as it came, and a repeat gets its payment whatever the seller signs by then.
func TestSignedOfferIsEchoed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s := x402test.NewSeller(t)
	r := soldBy(w.proxied("https://a.example/x", "100", ""), s)
	r.Challenge.Extensions = x402test.Extensions(t, "offers", []any{s.Offer(offerOf(r, w.chain.clock().Unix()+60))})
	a := w.mustOpen(r)
	echoed, _, _ := strings.Cut(string(r.Challenge.Extensions), `,"schema"`)
	if sent := string(a.Payload().JSON); !strings.Contains(sent, `"extensions":`+echoed+`}}`) {
		t.Errorf("sent %s", sent)
	}
	id := a.Payment().ID
	a.Finish(false)
	w.quiet()
	r.Challenge.Extensions = x402test.Extensions(t, "offers", []any{x402test.NewSeller(t).Offer(offerOf(r, 0))})
	again := w.mustOpen(r)
	if again.Payment().ID != id {
		t.Errorf("the repeat got %s, want %s", again.Payment().ID, id)
	}
	again.Finish(true)
	w.checkBooks()
}

// receiptFor is the receipt of a settlement with a signed one in it.
func receiptFor(t *testing.T, tx string, signed any) x402.Receipt {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"success": true, "transaction": tx, "network": "eip155:8453", "extensions": x402test.Extensions(t, "receipt", signed),
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x402.DecodeReceipt(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The seller's signed receipt is kept with the payment; one of another payment, signer or size is not,
// and the answer stays paid.
func TestSignedReceiptIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s, thief := x402test.NewSeller(t), x402test.NewSeller(t)
	for name, signed := range map[string]func(x402test.Fields) any{
		"kept":    func(f x402test.Fields) any { return s.Receipt(f) },
		"thief's": func(f x402test.Fields) any { return thief.Receipt(f) },
		"other's": func(f x402test.Fields) any { return s.Receipt(f.With("payer", testSeller)) },
		"huge":    func(f x402test.Fields) any { return s.Receipt(f).With("more", strings.Repeat("x", 5000)) },
		"no JSON": func(x402test.Fields) any { return 7 },
	} {
		a := w.mustOpen(soldBy(w.proxied("https://a.example/"+name, "100", ""), s))
		tx := w.sellerMoves(a.Payload())
		receipt := receiptFor(t, tx, signed(x402test.Fields{
			"version": 1, "network": "eip155:8453", "resourceUrl": "https://a.example/" + name, "payer": a.Payment().Authorization.From.String(),
			"issuedAt": w.chain.clock().Unix(), "transaction": tx,
		}))
		a.Receipt(receipt)
		a.Finish(true)
		w.quiet()
		p := w.payment(a.Payment().ID)
		if p.State != pay.Settled || p.Transaction != tx || (p.SignedReceipt != nil) != (name == "kept") {
			t.Errorf("%s: %s, receipt %s", name, p.State, p.SignedReceipt)
		}
	}
	w.checkBooks()
}

// Of an answer that was lost, the chain settles the payment first and the repeat brings the receipt.
func TestSignedReceiptOfARepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s := x402test.NewSeller(t)
	r := soldBy(w.proxied("https://a.example/x", "100", ""), s)
	a := w.mustOpen(r)
	id, tx := a.Payment().ID, w.sellerMoves(a.Payload())
	a.Finish(false)
	w.quiet()
	w.chain.advance(21e9)
	w.recoverOnce()
	if p := w.payment(id); p.State != pay.Settled || p.SignedReceipt != nil {
		t.Fatalf("%s, receipt %s", p.State, p.SignedReceipt)
	}
	again := w.mustOpen(r)
	signed := receiptFor(t, tx, s.Receipt(x402test.Fields{
		"version": 1, "network": "eip155:8453", "resourceUrl": r.Challenge.ResourceURL, "payer": again.Payment().Authorization.From.String(),
		"issuedAt": w.chain.clock().Unix(), "transaction": "",
	}))
	again.Receipt(signed)
	again.Finish(true)
	w.quiet()
	first := w.payment(id)
	if again.Payment().ID != id || first.SignedReceipt == nil {
		t.Fatalf("receipt %s", first.SignedReceipt)
	}

	// A posted one does not replace it.
	changed := must(w.payer.PostReceipt(t.Context(), w.key, id, signed))
	if string(changed.SignedReceipt) != string(first.SignedReceipt) {
		t.Errorf("replaced by %s", changed.SignedReceipt)
	}
}
