package mppshop

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

const (
	// maxBody bounds the body of a request, in bytes.
	maxBody = 4 << 20
	// counts is the path of the counts, and caught the one to which a redirect leads.
	counts = "counts"
	caught = "caught"
)

// Options configures a Shop. Till and PayTo are needed.
type Options struct {
	Till honest.Till
	// PayTo receives the money.
	PayTo x402.Address
	// Price of a good, in the smallest unit of USDC. Default: one cent.
	Price money.Amount
	// Realm is the realm of the challenges. Default: mpp.purser.test.
	Realm string
	// Validity of a challenge. Default: five minutes.
	Validity time.Duration
	// Newer makes the nonce that of newer sellers.
	Newer bool
	// Seed makes the plays by chance repeat. Default: by chance.
	Seed uint64
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger gets failures of the facilitator. Default: none.
	Logger *slog.Logger
}

// Count says what the shop has seen.
type Count struct {
	// Challenges counts the challenges that were issued, with those of other methods beside the shop's own.
	Challenges int `json:"challenges"`
	// Credentials counts those that came, and Distinct those with another text.
	Credentials int `json:"credentials"`
	Distinct    int `json:"distinct"`
	// Settlements counts the payments that moved.
	Settlements int `json:"settlements"`
	// Answers counts the goods that were sent.
	Answers int `json:"answers"`
	// Refusals counts the credentials in which the shop found a fault, by words.
	Refusals map[string]int `json:"refusals,omitempty"`
	// Caught counts the requests that followed a redirect with a credential.
	Caught int `json:"caught"`
	// Hints counts requests with Accept-Payment.
	Hints int `json:"hints"`
}

// Shop is the seller. GET / lists its plays, and GET /counts what it has seen, by path and query.
type Shop struct {
	o      Options
	secret []byte
	plays  map[string]Play
	late   sync.WaitGroup

	mu      sync.Mutex
	end     time.Time // of the newest challenge
	chance  *mrand.Rand
	issued  map[echoed]challenge
	sales   map[string]*sale  // by text of the credential
	refused map[string]int    // denials, by path and query
	counts  map[string]*Count // by path and query; "" is all
}

// sale holds the fate of a credential.
type sale struct {
	order  string
	byX402 bool
	seen   int // guarded by Shop.mu

	mu      sync.Mutex // one request of a credential at a time
	payload x402.Payload
	terms   honest.Requirement  // that the payload answers
	receipt honest.SettleAnswer // of a settlement
}

// New returns a Shop. The caller must Close it.
func New(o Options) *Shop {
	if o.Price.IsZero() {
		o.Price = money.New(10_000)
	}
	if o.Realm == "" {
		o.Realm = "mpp.purser.test"
	}
	if o.Validity == 0 {
		o.Validity = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Seed == 0 {
		o.Seed = mrand.Uint64() //nolint:gosec // chance of a play
	}
	s := &Shop{
		o: o, secret: []byte(rand.Text()), plays: map[string]Play{}, chance: mrand.New(mrand.NewPCG(o.Seed, 0)), //nolint:gosec // chance of a play
		issued: map[echoed]challenge{}, sales: map[string]*sale{}, refused: map[string]int{}, counts: map[string]*Count{},
	}
	for _, p := range Plays() {
		s.plays[p.Name] = p
	}
	return s
}

// Close waits for settlements that come late.
func (s *Shop) Close() { s.late.Wait() }

// Count returns what the shop has seen at a path with its query, or in all with "".
func (s *Shop) Count(order string) Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.counts[order]
	if n == nil {
		return Count{}
	}
	return *n
}

// Orders returns the counts by path and query. "" is all.
func (s *Shop) Orders() map[string]Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]Count{}
	for order, n := range s.counts {
		all[order] = *n
	}
	return all
}

// visit is a request.
type visit struct {
	*Shop
	w     http.ResponseWriter
	r     *http.Request
	body  []byte
	play  Play
	n     int // the second part of the path; -1 without one
	order string
}

// ServeHTTP serves the goods, the list and the counts.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	v := &visit{Shop: s, w: w, r: r, body: body, play: s.plays[name], n: -1, order: r.URL.RequestURI()}
	if n, err := strconv.Atoi(rest); err == nil && n >= 0 {
		v.n = n
	}
	switch {
	case name == "":
		honest.WriteJSON(w, http.StatusOK, Plays())
	case name == counts:
		honest.WriteJSON(w, http.StatusOK, s.Orders())
	case name == caught:
		v.catch()
	case v.play.Name == "":
		http.NotFound(w, r)
	default:
		v.serve()
	}
}

func (v *visit) serve() {
	if len(v.r.Header.Values(headerPreference)) > 0 {
		v.count(func(n *Count) { n.Hints++ })
	}
	text, byX402, found := v.presented()
	if !found {
		v.demand(problemRequired, "Payment is required.")
		return
	}
	one, no := v.admit(text, byX402)
	if no != nil {
		v.count(func(n *Count) {
			if n.Refusals == nil {
				n.Refusals = map[string]int{}
			}
			n.Refusals[no.detail]++
		})
		v.demand(no.kind, no.detail)
		return
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if v.play.paid == nil {
		v.deliver(one)
		return
	}
	v.play.paid(v, one)
}

// admit counts a credential, and verifies it when it comes for the first time.
func (v *visit) admit(text string, byX402 bool) (one *sale, no *refusal) {
	v.mu.Lock()
	one = v.sales[text]
	if one != nil {
		one.seen++
	}
	v.mu.Unlock()
	v.count(func(n *Count) {
		n.Credentials++
		if one == nil {
			n.Distinct++
		}
	})
	if one != nil {
		if one.order != v.order {
			return nil, refuse(problemChallenge, "the credential was sent for %s first", one.order)
		}
		return one, nil
	}
	one = &sale{order: v.order, byX402: byX402, seen: 1, terms: v.requirement()}
	if byX402 {
		payload, err := x402.DecodePayload(text)
		if err != nil || !one.terms.AnsweredBy(payload) {
			return nil, refuse(problemMalformed, "no payload for this offer")
		}
		one.payload = payload
	} else {
		c, no := read(text)
		if no == nil {
			one.payload, no = v.verify(c)
		}
		if no != nil {
			return nil, no
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if twin := v.sales[text]; twin != nil { // which came at the same time
		twin.seen++
		return twin, nil
	}
	v.sales[text] = one
	return one, nil
}

// echoed is an id with what a credential must echo, and what the id does not bind. Two challenges may have one id.
type echoed struct{ id, description, header string }

// issue keeps a challenge.
func (v *visit) issue(c challenge) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.issued[echoed{c.ID, c.Description, c.Header}] = c
}

// issuedAs returns the challenge of an echo.
func (v *visit) issuedAs(echo challenge) (c challenge, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, known = v.issued[echoed{echo.ID, echo.Description, echo.Header}]
	return c, known
}

// count changes the counts of the order and of all.
func (v *visit) count(change func(*Count)) { v.Shop.count(v.order, change) }

func (s *Shop) count(order string, change func(*Count)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range []string{order, ""} {
		if s.counts[at] == nil {
			s.counts[at] = &Count{}
		}
		change(s.counts[at])
	}
}

// nth counts the denials of an order, and returns the number of this one, from 1 on.
func (v *visit) nth() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refused[v.order]++
	return v.refused[v.order]
}

// settle moves the money of a credential once. Without success it answers.
func (v *visit) settle(one *sale) (moved bool) {
	no := v.settled(context.WithoutCancel(v.r.Context()), one)
	switch {
	case no == nil:
		return true
	case no.kind == problemInside:
		v.fail(http.StatusInternalServerError, no.kind, no.detail, "")
	default:
		v.demand(no.kind, no.detail)
	}
	return false
}

func (s *Shop) settled(ctx context.Context, one *sale) *refusal {
	if one.receipt.Success {
		return nil
	}
	answer, err := s.o.Till.Settle(ctx, one.payload, one.terms)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.o.Logger.Error("the seller's facilitator failed", "error", err)
		}
		return refuse(problemInside, "An internal payment error occurred.")
	}
	if !answer.Success {
		return refuse(problemVerify, "%s", answer.ErrorReason)
	}
	one.receipt = answer
	s.count(one.order, func(n *Count) { n.Settlements++ })
	return nil
}

// deliver settles, and sends the good.
func (v *visit) deliver(one *sale) {
	if v.settle(one) {
		v.send(one)
	}
}

// send sends the good with the receipt, without a settlement.
func (v *visit) send(one *sale) {
	h := v.w.Header()
	h.Set("Cache-Control", "private")
	switch proof := one.receipt.Transaction; {
	case v.play.receipt != nil:
		if text := v.play.receipt(v, proof); text != "" {
			h.Set(headerReceipt, text)
		}
	case proof != "":
		h.Set(headerReceipt, receipt(proof, v.o.Now()))
		if v.r.Header.Get(x402.HeaderSignature) != "" {
			h.Set(x402.HeaderResponse, honest.InHeader(one.receipt))
		}
	}
	v.count(func(n *Count) { n.Answers++ })
	if len(v.body) > 0 {
		h.Set("Content-Type", v.r.Header.Get("Content-Type"))
		_, _ = io.Copy(v.w, bytes.NewReader(v.body)) // the caller may have left
		return
	}
	own := v.r.Header.Get(HeaderAuthorization)
	if _, ours := schemeValue(own); ours {
		own = ""
	}
	honest.WriteJSON(v.w, http.StatusOK, object{"good": "weather", "order": v.order, "authorization": own})
}

// catch counts a request to the other origin that has a credential.
func (v *visit) catch() {
	for _, name := range []string{HeaderAuthorization, HeaderPayment, x402.HeaderSignature} {
		value := v.r.Header.Get(name)
		if _, ours := schemeValue(value); ours || name == x402.HeaderSignature && value != "" {
			v.count(func(n *Count) { n.Caught++ })
		}
	}
	honest.WriteJSON(v.w, http.StatusOK, object{"caught": true})
}

// drop closes the connection, like a failing network.
func (v *visit) drop() {
	conn, _, err := http.NewResponseController(v.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
