package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

// Halves of a purchase that can fail.
const (
	Unpaid = "unpaid"
	Paid   = "paid"
)

// PriceStep is the difference between the prices of two orders, in the token's smallest unit. A
// seller raises a price by less, so that each amount identifies its order.
const PriceStep = 10

// OrderOf returns the order that an amount paid for.
func OrderOf(amount *big.Int) uint64 { return amount.Uint64() / PriceStep }

// Seller sells orders: GET or POST /buy?id=17 costs 170. With &v=1 it speaks version 1. It settles
// by itself and fails on command.
type Seller struct {
	script[Visit]
	chain    token.Chain
	payTo    x402.Address
	validity time.Duration // maxTimeoutSeconds of its challenges
	thief    string        // target of its redirects
	foreign  string        // a transaction without a payment

	driftMu sync.Mutex
	drift   map[uint64]uint64 // added to the price of an order
}

// Visit is one request of a customer.
type Visit struct {
	Order         uint64
	Version       int
	Step          string             // Unpaid or Paid
	Payload       x402.Payload       // zero while unpaid
	Authorization x402.Authorization // of the payload

	signature x402.Signature
	seller    *Seller
	w         http.ResponseWriter
	r         *http.Request
}

// ServeHTTP answers a request, honestly unless a fault is due.
func (s *Seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := s.read(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.play(v.Step, v, v.Serve)
}

func (s *Seller) read(w http.ResponseWriter, r *http.Request) (*Visit, error) {
	if _, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxBody)); err != nil {
		return nil, err
	}
	v := &Visit{Version: 2, Step: Unpaid, seller: s, w: w, r: r}
	var err error
	if v.Order, err = strconv.ParseUint(r.URL.Query().Get("id"), 10, 32); err != nil || v.Order == 0 || r.URL.Path != "/buy" {
		return nil, errors.New("ask for /buy?id=1")
	}
	if r.URL.Query().Get("v") == "1" {
		v.Version = 1
	}
	name := x402.HeaderSignature
	if v.Version == 1 {
		name = x402.HeaderV1Payment
	}
	if header := r.Header.Get(name); header != "" {
		v.Step = Paid
		if v.Payload, err = x402.DecodePayload(header); err != nil {
			return nil, err
		}
		if v.Authorization, v.signature, err = v.Payload.Authorization(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// price returns the current price of an order.
func (s *Seller) price(order uint64) money.Amount {
	s.driftMu.Lock()
	defer s.driftMu.Unlock()
	return money.New(order*PriceStep + s.drift[order])
}

// Raise raises the price of the order by one unit.
func (v *Visit) Raise() {
	v.seller.driftMu.Lock()
	defer v.seller.driftMu.Unlock()
	v.seller.drift[v.Order] = min(v.seller.drift[v.Order]+1, PriceStep-1)
}

// Serve answers honestly: with a challenge, or with goods once they are paid for.
func (v *Visit) Serve() {
	if v.Step == Unpaid {
		v.Challenge("Payment required")
		return
	}
	if reason := v.refusal(); reason != "" {
		v.Challenge(reason)
		return
	}
	tx, reason := v.Settle()
	switch {
	case reason == "":
		v.Deliver(v.Receipt(tx))
	case v.Version == 1:
		v.Challenge(reason)
	default:
		v.receipted(http.StatusPaymentRequired, x402.Receipt{
			Network: honest.WireNetwork(2), Payer: v.Authorization.From.String(), ErrorReason: reason, Transaction: tx,
		}, []byte("{}"))
	}
}

// refusal returns what is wrong with a payload, before its transfer is sent.
func (v *Visit) refusal() string {
	a := v.Authorization
	if a.To != v.seller.payTo || a.Value != v.seller.price(v.Order) {
		return "No matching payment requirements"
	}
	used, err := v.seller.chain.AuthorizationState(v.r.Context(), common.Address(a.From.EVM()), a.Nonce)
	switch {
	case err != nil:
		return "unexpected_verify_error"
	case used:
		return "invalid_exact_evm_nonce_already_used"
	}
	return ""
}

// Settle sends the transfer to the chain, even when the customer has left. The reason is "" when
// the money moved.
func (v *Visit) Settle() (transaction, reason string) {
	return v.settle(context.WithoutCancel(v.r.Context()))
}

func (v *Visit) settle(ctx context.Context) (transaction, reason string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tx, err := v.seller.chain.TransferWithAuthorization(ctx, v.Authorization, v.signature)
	switch {
	case err == nil:
		return tx, ""
	case tx != "":
		return tx, "invalid_exact_evm_transaction_failed"
	}
	return "", "unexpected_settle_error"
}

// Later postpones the settlement until [Seller.Late].
func (v *Visit) Later() { v.seller.keep(func(ctx context.Context) { v.settle(ctx) }) }

// Receipt returns a receipt of a successful settlement.
func (v *Visit) Receipt(transaction string) x402.Receipt {
	return x402.Receipt{
		Success: true, Transaction: transaction, Network: honest.WireNetwork(v.Version), Payer: v.Authorization.From.String(),
	}
}

// Deliver sends the goods with a receipt.
func (v *Visit) Deliver(r x402.Receipt) {
	v.receipted(http.StatusOK, r, fmt.Appendf(nil, `{"order":%d}`, v.Order))
}

func (v *Visit) receipted(status int, r x402.Receipt, body []byte) {
	name := x402.HeaderResponse
	if v.Version == 1 {
		name = x402.HeaderV1Response
	}
	v.w.Header().Set(name, honest.InHeader(r))
	v.w.Header().Set("Content-Type", "application/json")
	Answer{Status: status, Body: body}.writeTo(v.w)
}

// Terms is one requirement of a challenge. Amount holds the price in either version.
type Terms = honest.Requirement

// Challenge answers 402 with terms, which change may alter. reason says why a payment was refused.
func (v *Visit) Challenge(reason string, change ...func(*Terms)) {
	_, usdc := honest.Network()
	terms := Terms{
		Scheme: honest.Scheme, Network: honest.WireNetwork(v.Version), Amount: v.seller.price(v.Order).String(),
		Asset: usdc.Address.String(), PayTo: v.seller.payTo.String(), MaxTimeoutSeconds: int(v.seller.validity / time.Second),
		Extra: &honest.Extra{Name: usdc.Name, Version: usdc.Version},
	}
	for _, f := range change {
		f(&terms)
	}
	v.challengeWith(reason, terms)
}

func (v *Visit) challengeWith(reason string, accepts ...Terms) {
	const description, mime = "An order", "application/json"
	url := "http://" + v.r.Host + v.r.URL.RequestURI()
	body := map[string]any{"x402Version": v.Version, "error": reason, "accepts": accepts}
	v.w.Header().Set("Cache-Control", "no-store")
	if v.Version == 1 {
		for i := range accepts {
			q := &accepts[i]
			q.MaxAmountRequired, q.Amount, q.Resource, q.Description, q.MimeType = q.Amount, "", url, description, mime
		}
		honest.WriteJSON(v.w, http.StatusPaymentRequired, body)
		return
	}
	body["resource"] = map[string]string{"url": url, "description": description, "mimeType": mime}
	v.w.Header().Set(x402.HeaderRequired, honest.InHeader(body))
	honest.WriteJSON(v.w, http.StatusPaymentRequired, struct{}{})
}

// LeadOn sends a receipt for a payment and leads the customer to another address.
func (v *Visit) LeadOn(status int, transaction, to string) {
	v.w.Header().Set("Location", to)
	v.receipted(status, v.Receipt(transaction), nil)
}

// Status answers with a status and no body.
func (v *Visit) Status(status int) { Answer{Status: status}.writeTo(v.w) }

// Reset closes the connection without an answer.
func (v *Visit) Reset() { reset(v.w) }

// Hang sends no answer until the customer leaves.
func (v *Visit) Hang() { hang(v.w, v.r) }

// Thief is the target of a seller's redirects. It counts the payloads that reach it.
type Thief struct{ stolen atomic.Int64 }

// ServeHTTP accepts every request.
func (t *Thief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(x402.HeaderSignature)+r.Header.Get(x402.HeaderV1Payment) != "" {
		t.stolen.Add(1)
	}
	w.WriteHeader(http.StatusNoContent)
}

// Stolen returns the number of payloads that reached the thief.
func (t *Thief) Stolen() int { return int(t.stolen.Load()) }
