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
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

// Step is the unpaid or the paid half of a purchase.
type Step int

// Values of Step.
const (
	Unpaid Step = iota
	Paid
)

// SellerFault replaces the seller's answer to a request.
type SellerFault struct {
	Name string
	On   Step
	// Always makes every such request fail, not only one.
	Always bool
	// Hangs marks faults that make the caller wait for its time limit.
	Hangs bool
	Do    func(*Visit)
}

// PriceStep is the difference between the prices of two orders, in the token's smallest unit. A
// seller raises a price by less, so that each amount identifies its order.
const PriceStep = 10

// OrderOf returns the order that an amount paid for.
func OrderOf(amount *big.Int) uint64 { return amount.Uint64() / PriceStep }

// Seller sells orders: GET or POST /buy?id=17 costs 170. With &v=1 it speaks version 1. It settles
// by itself and fails on command.
type Seller struct {
	o SellerOptions
	// Met, when set, is called before a fault is played. Set it before the first request.
	Met func(*Visit, SellerFault)
	// Choose, when set, picks the fault of a request for which none is queued. Set it before the
	// first request.
	Choose func(*Visit) (SellerFault, bool)

	mu    sync.Mutex
	queue []SellerFault
	drift map[uint64]uint64 // added to the price of an order
	kept  []func(context.Context)
}

// SellerOptions configures a Seller.
type SellerOptions struct {
	Chain    token.Chain
	PayTo    x402.Address
	Validity time.Duration // maxTimeoutSeconds of its challenges
	Thief    string        // target of its redirects
	Foreign  string        // a transaction without a payment
}

// NewSeller returns a seller without faults.
func NewSeller(o SellerOptions) *Seller { return &Seller{o: o, drift: map[uint64]uint64{}} }

// Meet replaces the queue of faults. The first fault of a step goes to the first request of that
// step, and so on.
func (s *Seller) Meet(faults ...SellerFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append([]SellerFault(nil), faults...)
}

// Late performs the settlements that faults have postponed.
func (s *Seller) Late(ctx context.Context) {
	s.mu.Lock()
	kept := s.kept
	s.kept = nil
	s.mu.Unlock()
	for _, do := range kept {
		do(ctx)
	}
}

// Visit is one request of a customer.
type Visit struct {
	Order         uint64
	Version       int
	Step          Step
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
	fault, due := s.nextFault(v)
	if !due {
		v.Serve()
		return
	}
	if s.Met != nil {
		s.Met(v, fault)
	}
	fault.Do(v)
}

func (s *Seller) read(w http.ResponseWriter, r *http.Request) (*Visit, error) {
	if _, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxBody)); err != nil {
		return nil, err
	}
	v := &Visit{Version: 2, seller: s, w: w, r: r}
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

// nextFault returns the fault for a request.
func (s *Seller) nextFault(v *Visit) (SellerFault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, fault := range s.queue {
		if fault.On != v.Step {
			continue
		}
		if !fault.Always {
			s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
		}
		return fault, true
	}
	if s.Choose != nil {
		return s.Choose(v)
	}
	return SellerFault{}, false
}

// price returns the current price of an order.
func (s *Seller) price(order uint64) x402.Amount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return x402.NewAmount(order*PriceStep + s.drift[order])
}

// Raise raises the price of the order by one unit.
func (v *Visit) Raise() {
	v.seller.mu.Lock()
	defer v.seller.mu.Unlock()
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
			Network: network().CAIP2(), Payer: v.Authorization.From.String(), ErrorReason: reason, Transaction: tx,
		}, []byte("{}"))
	}
}

// refusal returns what is wrong with a payload, before its transfer is sent.
func (v *Visit) refusal() string {
	a := v.Authorization
	if a.To != v.seller.o.PayTo || a.Value != v.seller.price(v.Order) {
		return "No matching payment requirements"
	}
	used, err := v.seller.o.Chain.AuthorizationState(v.r.Context(), common.Address(a.From), a.Nonce)
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
	a := v.Authorization
	tx, err := v.seller.o.Chain.TransferWithAuthorization(ctx, token.Authorization{
		From: common.Address(a.From), To: common.Address(a.To), Value: a.Value.Big(), Nonce: a.Nonce,
		ValidAfter: new(big.Int).SetUint64(a.ValidAfter), ValidBefore: new(big.Int).SetUint64(a.ValidBefore),
	}, v.signature)
	switch {
	case err == nil:
		return tx, ""
	case tx != "":
		return tx, "invalid_exact_evm_transaction_failed"
	}
	return "", "unexpected_settle_error"
}

// Later postpones the settlement until [Seller.Late].
func (v *Visit) Later() {
	v.seller.mu.Lock()
	defer v.seller.mu.Unlock()
	v.seller.kept = append(v.seller.kept, func(ctx context.Context) { v.settle(ctx) })
}

// Receipt returns a receipt of a successful settlement.
func (v *Visit) Receipt(transaction string) x402.Receipt {
	r := x402.Receipt{Success: true, Transaction: transaction, Network: network().CAIP2(), Payer: v.Authorization.From.String()}
	if v.Version == 1 {
		r.Network = network().Name
	}
	return r
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
	v.w.Header().Set(name, inHeader(r))
	v.w.Header().Set("Content-Type", "application/json")
	Answer{Status: status, Body: body}.writeTo(v.w)
}

// Terms holds one requirement of a challenge.
type Terms struct {
	Scheme, Network, Asset, PayTo, Amount string
	Name, Version                         string // of the token's EIP-712 domain
	MaxTimeout                            int    // in seconds
	Memo                                  string // further text that the payload must echo
}

// Challenge answers 402 with terms, which change may alter. reason says why a payment was refused.
func (v *Visit) Challenge(reason string, change ...func(*Terms)) {
	usdc := network().Assets[0]
	terms := Terms{
		Scheme: "exact", Network: network().CAIP2(), Asset: usdc.Address.String(), PayTo: v.seller.o.PayTo.String(),
		Amount: v.seller.price(v.Order).String(), Name: usdc.Name, Version: usdc.Version,
		MaxTimeout: int(v.seller.o.Validity / time.Second),
	}
	if v.Version == 1 {
		terms.Network = network().Name
	}
	for _, f := range change {
		f(&terms)
	}
	v.challengeWith(reason, terms)
}

func (v *Visit) challengeWith(reason string, terms ...Terms) {
	url := "http://" + v.r.Host + v.r.URL.RequestURI()
	accepts := []map[string]any{}
	for _, t := range terms {
		q := map[string]any{
			"scheme": t.Scheme, "network": t.Network, "asset": t.Asset, "payTo": t.PayTo, "maxTimeoutSeconds": t.MaxTimeout,
		}
		extra := map[string]string{"name": t.Name, "version": t.Version}
		if t.Memo != "" {
			extra["memo"] = t.Memo
		}
		q["extra"] = extra
		if v.Version == 1 {
			q["maxAmountRequired"], q["resource"], q["description"], q["mimeType"] = t.Amount, url, "An order", "application/json"
		} else {
			q["amount"] = t.Amount
		}
		accepts = append(accepts, q)
	}
	v.w.Header().Set("Cache-Control", "no-store")
	if v.Version == 1 {
		jsonAnswer(http.StatusPaymentRequired, map[string]any{"x402Version": 1, "error": reason, "accepts": accepts}).writeTo(v.w)
		return
	}
	v.w.Header().Set(x402.HeaderRequired, inHeader(map[string]any{
		"x402Version": 2, "error": reason, "accepts": accepts,
		"resource": map[string]string{"url": url, "description": "An order", "mimeType": "application/json"},
	}))
	jsonAnswer(http.StatusPaymentRequired, struct{}{}).writeTo(v.w)
}

// Status answers with a status and no body.
func (v *Visit) Status(status int) { Answer{Status: status}.writeTo(v.w) }

// Reset closes the connection without an answer.
func (v *Visit) Reset() { reset(v.w) }

// Hang sends no answer until the customer leaves.
func (v *Visit) Hang() { hang(v.w, v.r) }

// Thief is the target of a seller's redirects. It counts the payloads that reach it.
type Thief struct {
	mu     sync.Mutex
	stolen int
}

// ServeHTTP accepts every request.
func (t *Thief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, name := range []string{x402.HeaderSignature, x402.HeaderV1Payment} {
		if r.Header.Get(name) != "" {
			t.mu.Lock()
			t.stolen++
			t.mu.Unlock()
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// Stolen returns the number of payloads that reached the thief.
func (t *Thief) Stolen() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stolen
}
