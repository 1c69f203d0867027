package simulation

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	sellerAddress = "0x5e11e7000000000000000000000000000000a11c"
	// basePrice is the price of order 0, in the smallest unit. Each order has its own price, by which its moves are
	// known.
	basePrice = 10_000
)

func priceOf(order int) uint64 { return basePrice + uint64(order) }

func orderOf(value string) int {
	n, err := strconv.Atoi(value)
	if err != nil {
		return -1
	}
	return n - basePrice
}

// held holds a payload that a seller or facilitator has got and may still settle.
type held struct {
	authorization x402.Authorization
	signature     x402.Signature
}

// sellers answer at https://seller.example. They remember payloads.
type sellers struct {
	mu   sync.Mutex
	held []held
	cut  []string // answers of streams, which may have been cut off before them
	// issued has the challenges of MPP.
	issued map[issued][]challenge
}

func (s *sellers) keep(h held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, h)
}

// way is one purser's way to sellers.
type way struct {
	*world
	node *node
}

func (v *way) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
	}()
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body))
	value, about := cmp.Or(r.Header.Get(x402.HeaderSignature), mppIn(r.Header)), r.URL.Path
	if about == toolPath && r.Method == http.MethodPost {
		if r, value, err = v.readTool(r); err != nil {
			return nil, err
		}
		about = fmt.Sprint(toolPath, " ", toolOf(r).Params.Arguments.Order)
	}
	what := "seller is asked for " + about
	if value != "" {
		what = "seller is paid for " + about
	}
	luck, err := v.conductor.cross(r.Context(), v.node, what)
	if err != nil {
		return nil, err
	}
	if !v.calm() && luck.IntN(100) < v.mix.lineFails {
		v.conductor.say("%s cannot reach the seller", v.node)
		if luck.IntN(3) == 0 { // or so it seems: the seller has got the payload all the same
			v.keep(value)
		}
		return nil, errors.New("connection refused")
	}
	wrote(r.Context())
	resp, err := v.answer(r, value, luck)
	if _, died := v.conductor.cross(r.Context(), v.node, "seller answers "+about); died != nil {
		return nil, died
	}
	return resp, err
}

// keep has the seller keep a payload, if there is one.
func (v *way) keep(value string) {
	if a, sig, err := paidBy(value); err == nil {
		v.conductor.say("the seller has order %d paid all the same", orderOf(a.Value.String()))
		v.leaves(a)
		v.sellers.keep(held{a, sig})
	}
}

// leaves notes that a payload has reached its seller.
func (v *way) leaves(a x402.Authorization) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left[orderOf(a.Value.String())] = true
}

// wrote calls the hooks of a connection on which the request was written.
func wrote(ctx context.Context) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		return
	}
	if trace.GotConn != nil {
		near, far := net.Pipe()
		trace.GotConn(httptrace.GotConnInfo{Conn: near})
		_, _ = near.Close(), far.Close()
	}
	if trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	if trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
}

var errLost = errors.New("connection reset by peer")

// answer has the seller decide what a request gets.
func (v *way) answer(r *http.Request, value string, luck *rand.Rand) (*http.Response, error) {
	if r.URL.Path == toolPath && r.Method == http.MethodGet {
		return v.rest(r), nil
	}
	order, err := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	if call := toolOf(r); call != nil {
		order, err = call.Params.Arguments.Order, nil
	}
	if err != nil {
		return response(r, http.StatusNotFound, "no such order"), nil
	}
	v.checkOwn(r, v.numbered(order))
	if value == "" {
		return v.ask(r, order, "", luck), nil
	}
	a, sig, err := paidBy(value)
	if err != nil {
		return nil, err
	}
	v.leaves(a)
	v.chain.mu.Lock()
	used := v.chain.used(a)
	v.chain.mu.Unlock()
	no := ""
	if paysByMPP(r) {
		no = v.verifyMPP(r, order, value)
	}
	if used != nil && (no == "" || v.mix.replays) {
		if v.mix.replays { // this seller delivers what was paid for as often as it is asked
			return v.deliver(r, order, used.hash, luck), nil
		}
		return v.askAfter(r, order, a, luck), nil
	}
	if no != "" {
		return v.ask(r, order, no, luck), nil
	}
	what := v.mix.paid(luck, order)
	if v.calm() {
		what = delivers
	}
	v.conductor.say("%s pays order %d, and the seller %s", v.node, order, what)
	switch what {
	case holds, holdsAndRefuses, holdsAndForbids:
		v.sellers.keep(held{a, sig})
	case refuses, fails, forbids:
	default:
		transaction, err := v.chain.settle(a, sig, v.mix.charged(a, luck))
		if err != nil {
			v.conductor.say("order %d: %v", order, err)
			return v.ask(r, order, "invalid_exact_evm_transaction_failed", luck), nil
		}
		switch what {
		case delivers:
			return v.deliver(r, order, transaction, luck), nil
		case movesAndAsks:
			return v.ask(r, order, "", luck), nil
		case movesAndFails:
			return v.fail(r, http.StatusBadGateway, "bad gateway", luck), nil
		case movesAndLeads:
			return response(r, http.StatusSeeOther, "", "Location", "/more/"+strconv.Itoa(order)), nil
		}
	}
	switch what {
	case holdsAndRefuses:
		return v.ask(r, order, "payment not accepted", luck), nil
	case refuses:
		return v.ask(r, order, "insufficient_funds", luck), nil
	case fails:
		return v.fail(r, http.StatusInternalServerError, "error", luck), nil
	case forbids, movesAndForbids, holdsAndForbids:
		return v.forbid(r, []int{http.StatusForbidden, http.StatusConflict}[luck.IntN(2)], luck), nil
	}
	return nil, errLost
}

// Ways in which sellers treat a payload.
const (
	delivers        = "delivers"
	movesAndLoses   = "moves the money, and its answer is lost"
	movesAndAsks    = "moves the money, and asks for it again"
	movesAndFails   = "moves the money, and fails"
	movesAndLeads   = "moves the money, and leads on"
	holds           = "keeps the payload, and its answer is lost"
	holdsAndRefuses = "keeps the payload, and refuses it"
	refuses         = "refuses it"
	fails           = "fails"
)

func allTreatments() []string {
	return []string{delivers, movesAndLoses, movesAndAsks, movesAndFails, movesAndLeads, holds, holdsAndRefuses, refuses, fails}
}

// challengeOf returns the challenge of an order as a header's value.
func (m mix) challengeOf(order int, url, reason string) string {
	b, _ := json.Marshal(map[string]any{
		"x402Version": 2, "error": reason, "resource": map[string]string{"url": url},
		"accepts": []any{m.accepts(order)},
	})
	return base64.StdEncoding.EncodeToString(b)
}

func (v *way) ask(r *http.Request, order int, reason string, luck *rand.Rand) *http.Response {
	if v.mix.mppOf(order).is {
		return v.askMPP(r, order, reason, luck)
	}
	if toolOf(r) != nil {
		return v.askTool(r, order, reason, luck)
	}
	return response(r, http.StatusPaymentRequired, "{}", x402.HeaderRequired, v.mix.challengeOf(order, r.URL.String(), reason))
}

func (v *way) deliver(r *http.Request, order int, transaction string, luck *rand.Rand) *http.Response {
	if toolOf(r) != nil {
		return v.deliverTool(r, order, transaction, luck)
	}
	if paysByMPP(r) {
		return response(r, http.StatusOK, fmt.Sprintf("goods %d", order), headerReceipt, receiptMPP(transaction))
	}
	return response(r, http.StatusOK, fmt.Sprintf("goods %d", order), x402.HeaderResponse, receiptOf(transaction))
}

func (v *way) fail(r *http.Request, status int, body string, luck *rand.Rand) *http.Response {
	if paysByMPP(r) && luck.IntN(2) == 0 {
		return v.forbid(r, status, luck)
	}
	if toolOf(r) != nil {
		return v.failTool(r, luck)
	}
	return response(r, status, body)
}

// receiptOf returns a receipt as a header's value.
func receiptOf(transaction string) string {
	receipt, _ := json.Marshal(map[string]any{"success": true, "transaction": transaction, "network": "eip155:8453"})
	return base64.StdEncoding.EncodeToString(receipt)
}

// response makes an answer, with pairs of header names and values.
func response(r *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{}
	h.Set("Content-Type", "text/plain")
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// facilitator settles for purser, at REST with settlement payer.
type facilitator struct {
	*world
	node *node
}

var _ pay.Facilitator = (*facilitator)(nil)

func (f *facilitator) Probe(context.Context) error { return nil }

func (f *facilitator) Verify(ctx context.Context, x pay.Exchange) (pay.VerifyAnswer, error) {
	luck, err := f.conductor.cross(ctx, f.node, "facilitator verifies")
	if err != nil {
		return pay.VerifyAnswer{}, err
	}
	a, sig, err := x.Payload.Authorization()
	if err != nil {
		return pay.VerifyAnswer{}, err
	}
	behind := false
	if !f.calm() && luck.IntN(100) < f.mix.facilitatorFails {
		switch luck.IntN(3) {
		case 0:
			return pay.VerifyAnswer{}, errors.New("the facilitator answers 500")
		case 1:
			f.conductor.say("the facilitator refuses order %d, and keeps the payload", orderOf(a.Value.String()))
			f.sellers.keep(held{a, sig})
			return pay.VerifyAnswer{Reason: "insufficient_funds"}, nil
		}
		behind = true // its node is
	}
	f.chain.mu.Lock()
	defer f.chain.mu.Unlock()
	if f.chain.used(a) != nil && !behind {
		return pay.VerifyAnswer{Reason: spentReason(a)}, nil
	}
	return pay.VerifyAnswer{Valid: true}, nil
}

func (f *facilitator) Settle(ctx context.Context, x pay.Exchange) (pay.SettleAnswer, error) {
	luck, err := f.conductor.cross(ctx, f.node, "facilitator settles")
	if err != nil {
		return pay.SettleAnswer{}, err
	}
	a, sig, err := x.Payload.Authorization()
	if err != nil {
		return pay.SettleAnswer{}, err
	}
	what := "moves the money"
	if !f.calm() && luck.IntN(100) < f.mix.facilitatorFails {
		what = []string{"moves the money, and its answer is lost", "keeps the payload", "fails", "refuses", "refuses, and keeps the payload"}[luck.IntN(5)]
	}
	f.conductor.say("%s has the facilitator settle order %d, and it %s", f.node, orderOf(a.Value.String()), what)
	answer, err := pay.SettleAnswer{Reason: "invalid_exact_evm_transaction_simulation_failed"}, error(nil)
	switch what {
	case "keeps the payload":
		f.sellers.keep(held{a, sig})
		err = errLost
	case "fails":
		err = errLost
	case "refuses, and keeps the payload":
		f.sellers.keep(held{a, sig})
	case "refuses":
	default:
		transaction, failed := f.chain.settle(a, sig, a.Value)
		switch {
		case failed == nil:
			answer = pay.SettleAnswer{Success: true, Transaction: transaction, Network: "eip155:8453"}
		case strings.Contains(failed.Error(), "used"):
			answer = pay.SettleAnswer{Reason: spentReason(a)}
		}
		if what != "moves the money" {
			err = errLost
		}
	}
	if _, died := f.conductor.cross(ctx, f.node, "facilitator answers"); died != nil {
		return pay.SettleAnswer{}, died
	}
	return answer, err
}
