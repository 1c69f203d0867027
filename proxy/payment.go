package proxy

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// errCallerUnknown reports that purser would not notice the client leaving. A payment for a client
// that has left is lost to it, and its repeat would be taken for a second purchase.
var errCallerUnknown = errors.New("the end of the client's request cannot be seen")

// errOtherProtocol reports an earlier payment in a protocol that this door does not speak.
var errOtherProtocol = errors.New("the earlier payment is in a protocol that is not configured here")

// unsentError reports an earlier payment whose payload has left, and that cannot be sent with this request.
type unsentError struct {
	payment *pay.Payment
	cause   error
}

func (e *unsentError) Error() string {
	return fmt.Sprintf("payment %s was sent for this before, and cannot be sent again with this request: %v", e.payment.ID, e.cause)
}

func (e *unsentError) Unwrap() error { return e.cause }

// unpaidError reports a request that is not paid for, whatever it costs.
type unpaidError struct{ reason, why string }

func (e *unpaidError) Error() string { return e.why }

// unpaid says why a request is not paid for, whatever it costs; nil: it may be.
func (t *Transport) unpaid(req *http.Request, call *Call, seen *sendTrace) *unpaidError {
	if call.Unpaid != "" {
		return &unpaidError{call.Unpaid, declines.Why(call.Unpaid)}
	}
	if why := unasked(req); why != "" {
		return &unpaidError{DeclinedUnasked, why}
	}
	if !t.plain.allows(req.URL, seen.remote()) {
		return &unpaidError{DeclinedPlainHTTP, declines.Why(DeclinedPlainHTTP)}
	}
	return nil
}

// openPayment gets the call its payment: a new one, or that of an earlier request which this one
// repeats. It is ready to be sent then.
func (t *Transport) openPayment(req *http.Request, call *Call, m *memo, again string) error {
	if call.caller.Done() == nil || conns.Blind(call.caller) {
		return errCallerUnknown
	}
	if call.Dry {
		call.asking = req.Context() // nothing is paid, so the client may have ended its side
	} else if again == "" && call.left() {
		return pay.ErrCallerGone
	}
	if call.carrier == nil {
		call.carrier = t.carrier
	}
	if err := call.readKey(); err != nil {
		return err
	}
	if err := call.check(); err != nil {
		return err
	}
	if err := policy.CheckHost(req.URL); err != nil {
		return &pay.PolicyError{Rule: "hosts", Detail: err.Error()}
	}
	booked := t.carrierFor(req).booked(req.URL)
	asked := call.askedURL(req)
	// Sellers behind a TLS proxy often name another URL than they are reached by.
	if r := m.challenge.ResourceURL; r != "" && r != booked {
		t.log.Debug("challenge names another resource", "host", req.URL.Host)
	}
	if again == "" { // what was journaled is brought to its end, however much is under way
		leave, err := t.gate.Enter(call.asking, call.Key.ID)
		if err != nil {
			if call.asking.Err() != nil {
				err = pay.ErrCallerGone
			}
			return err
		}
		defer leave()
	}
	if again == "" {
		m.placed = t.redirects.place(req, call)
	}
	giveBack, failing := t.sellers.ready(call.Key.ID, req.URL.Host)
	if m.unpaid != nil {
		failing = m.unpaid
	}
	want := pay.Request{
		Key: call.Key, Door: t.door, Task: call.Task, Settlement: pay.SettleSeller,
		Challenge: m.challenge, Again: again, URL: short(req.URL, booked), IdempotencyKey: call.IdempotencyKey, Anew: call.Anew, Retried: call.Retried,
		MaxAmount: call.MaxAmount, HTTP: t.carrierFor(req).identity(req, asked, m.body), OnlyRepeat: failing != nil || m.onlyRepeat, Unpaid: m.unpaid != nil,
		Approved: call.approved, Redirects: m.placed, LedFrom: call.strayed, Arrival: call.arrival, Gone: func() bool { return conns.Gone(call.caller) },
	}
	if call.Dry {
		giveBack()
		q, err := t.payer.Quote(call.asking, want)
		if errors.Is(err, pay.ErrNothingToRepeat) {
			err = failing
		}
		return &dryRunError{q, err}
	}
	a, err := t.payer.Open(call.caller, want)
	if failing != nil && errors.Is(err, pay.ErrNothingToRepeat) {
		err = failing
	}
	if err != nil {
		refused, is := errors.AsType[*pay.PolicyError](err)
		switch {
		case is && m.unpaid != nil && refused.Rule != pay.RuleRedirected: // it comes first
			err = m.unpaid
		case is && refused.Rule == pay.RuleHostPaused:
			t.sellers.forget(call.Key.ID, req.URL.Host) // a person decides from now on
		}
		giveBack()
		return err
	}
	if m.repeats = a.Repeats(); m.repeats {
		m.earlier = a.Payment()
		giveBack()
	}
	t.redirects.buys(call.Key.ID, m.placed)
	if m.wire = t.protocols.Of(a.Payload()); m.wire == nil {
		err = errOtherProtocol
	} else if err = t.carrierFor(req).room(req, m.wire, a.Payload()); err == nil && m.unpaid != nil {
		err = m.unpaid
	}
	if err != nil {
		a.Abandon(err.Error())
		if m.repeats {
			err = &unsentError{m.earlier, err}
		}
		return err
	}
	m.attempt, m.ended = a, false
	call.memo = m
	return nil
}

// matches reports whether the payload may be sent with this request as well. The host may
// differ: load balancers try several.
func (m *memo) matches(req *http.Request) bool {
	return m.method == methodOf(req) && m.uri == req.URL.RequestURI()
}

// holdOrRefuse answers a 402 that is not paid because of err. If a person must approve the payment, it
// waits for the answer. Approved, it asks the seller for its terms anew, because those of the challenge are
// old: the payment is made if they are the approved ones.
func (t *Transport) holdOrRefuse(req *http.Request, call *Call, resp *http.Response, err error) (*http.Response, string, error) {
	switch code := pay.Code(err); {
	case !call.Dry && code == pay.CodeChallenge && call.waitForAnother():
		closeBody(resp)
		return t.askAnew(req, call)
	case call.Dry, code != pay.CodeApproval:
		return t.refuse(req, resp, err)
	}
	readWhole(resp, min(bodyPatience, t.patience)) // it keeps no connection to the seller while it waits
	waiting := pay.Request{Key: call.Key, Door: t.door, Task: call.Task, URL: t.carrierFor(req).booked(req.URL), Approved: call.approved}
	approved, err := t.payer.AwaitApproval(call.caller, waiting, err)
	if err != nil {
		return t.refuse(req, resp, err)
	}
	closeBody(resp)
	call.approved = approved
	return t.askAnew(req, call)
}

// maxTaken bounds how often a call asks for another challenge. Some sellers have one for all that ask in a second.
const maxTaken = 12

// waitForAnother waits before a call asks for another challenge, up to a second. It reports whether the call may ask.
func (c *Call) waitForAnother() bool {
	if c.taken++; c.taken > maxTaken {
		return false
	}
	pause := min(time.Second, 20*time.Millisecond<<c.taken)
	apart, err := rand.Int(rand.Reader, big.NewInt(int64(pause/2)))
	return err == nil && waitFor(c.caller, pause/2+time.Duration(apart.Int64())) // calls that wait beside each other come back apart
}

// askAnew sends a call's request without a payment once more, and pays for the answer.
func (t *Transport) askAnew(req *http.Request, call *Call) (*http.Response, string, error) {
	body, err := call.content(req, t.spool)
	if err != nil {
		return nil, ResultFailed, err
	}
	seen := new(sendTrace)
	resp, result, err := t.pass(withBody(req, body), seen)
	if err != nil {
		return nil, result, err
	}
	return t.payAnswer(req, call, resp, seen, body == nil)
}

// approvalView tells a client of the approval that its payment needs.
type approvalView struct {
	ID      string `json:"id"`
	Expires string `json:"expires"` // RFC 3339, UTC
}

// approvalOf returns the approval that an error is about; nil: a person was not asked.
func approvalOf(err error) *approvalView {
	held, is := errors.AsType[*pay.ApprovalError](err)
	if !is || held.Approval.ID == "" {
		return nil
	}
	return &approvalView{ID: held.Approval.ID, Expires: held.Approval.Expires.UTC().Format(time.RFC3339)}
}

// dryRunError ends a request that is not to be paid for: what would be paid, or what would refuse it.
type dryRunError struct {
	quote   pay.Quote
	refusal error // nil: it would be paid
}

func (e *dryRunError) Error() string {
	if e.refusal != nil {
		return "dry run: " + e.refusal.Error()
	}
	return "dry run"
}

func (e *dryRunError) Unwrap() error { return e.refusal }

// quoteView tells a client what would be paid.
type quoteView struct {
	Amount  string `json:"amount"` // in the asset's smallest unit
	Price   string `json:"price"`
	Network string `json:"network"`
	Asset   string `json:"asset"`
	PayTo   string `json:"payTo"`
	Wallet  string `json:"wallet,omitempty"` // the address that pays
	Gas     string `json:"gas,omitempty"`    // the most that gas costs beside the price, for people
	pay.Means
}

// viewOf returns nil if nothing could be paid.
func viewOf(q pay.Quote) *quoteView {
	if q.Terms.Network == "" {
		return nil
	}
	v := &quoteView{
		Amount: q.Terms.Amount.String(), Price: money.Text(q.Terms.Amount), Network: q.Terms.Network,
		Asset: q.Terms.Asset.String(), PayTo: q.Terms.PayTo.String(), Means: q.Means,
	}
	if q.Wallet.Address != nil {
		v.Wallet = q.Wallet.Address.String()
	}
	if !q.Gas.IsZero() {
		v.Gas = money.Text(q.Gas)
	}
	return v
}

func (v *quoteView) sentence() string {
	price := v.Price
	if v.Gas != "" {
		price += " and up to " + v.Gas + " for gas"
	}
	return fmt.Sprintf("dry run: %s on %s to %s would be paid from %s, %s", price, v.Network, v.PayTo, v.Wallet, v.Words())
}

// When a seller gets no new payments, and for how long.
const (
	defaultMaxFailures = 5
	firstPause         = 30 * time.Second
	longestPause       = 10 * time.Minute
	// maxFailing bounds the failing sellers that are remembered for a key. A forgotten one is paid
	// again.
	maxFailing = 256
)

// failingError reports that a seller was paid several times in a row and has not delivered.
type failingError struct{ error }

// sellers remembers, for each key by itself, which hosts were paid and did not deliver. A key's
// failures do not count for other keys: they may be that key's doing.
type sellers struct {
	opts  breaker.Options
	now   pay.Clock
	known *perclient.Memory[string, *breaker.Breaker] // by key and host; those without a failure are not there
}

// newSellers allows so many failures in a row. 0 means the default, and a negative number no bound.
func newSellers(most int, now pay.Clock) *sellers {
	if most < 0 {
		most = math.MaxInt
	}
	return &sellers{
		opts: breaker.Options{Failures: cmp.Or(most, defaultMaxFailures), Wait: firstPause, MaxWait: longestPause},
		now:  now, known: perclient.NewMemory[string, *breaker.Breaker](maxFailing),
	}
}

// ready is nil if a new payment may be made, else a *failingError. giveBack, which is never
// nil, says that none was made.
func (s *sellers) ready(keyID, host string) (giveBack func(), err error) {
	b := s.of(keyID, host)
	if b == nil {
		return func() {}, nil
	}
	trying, err := b.Allow(s.now())
	if err != nil {
		return func() {}, &failingError{fmt.Errorf("paid requests to %s: %w", host, err)}
	}
	return func() {
		if trying {
			b.Unused(s.now())
		}
	}, nil
}

// failed counts a paid request that was not delivered, for which the seller is to blame.
func (s *sellers) failed(keyID, host string) (opened bool) {
	b := s.known.GetOrAdd(keyID, strings.ToLower(host), func() *breaker.Breaker { return breaker.New(s.opts) })
	return b.Failed(s.now())
}

// forget forgets the failures of a seller: it has delivered, or its host is paused.
func (s *sellers) forget(keyID, host string) {
	if b := s.of(keyID, host); b != nil {
		b.Succeeded()
		s.known.Remove(keyID, strings.ToLower(host))
	}
}

func (s *sellers) of(keyID, host string) *breaker.Breaker {
	return s.known.Get(keyID, strings.ToLower(host))
}

// maxProofs bounds the refused sends that are remembered for a key.
const maxProofs = 64

// proofs remembers payments that went with a proof of the client's that counts once, such as DPoP's. The
// unpaid request has used it up, so the seller refuses it beside the payment. The client's repeat has a
// fresh one, which an unpaid request would use up again.
type proofs struct {
	urls  *perclient.Memory[pay.Hash, time.Time]    // at which a send was refused, and until when it counts
	sends *perclient.Memory[pay.Hash, refusedProof] // by URL and body
	some  atomic.Bool                               // one was refused once: without it, no request needs a hash
	now   pay.Clock
}

// refusedProof holds what the next send of a payment needs of the refused one.
type refusedProof struct {
	http1 bool
	until time.Time
}

func newProofs(now pay.Clock) *proofs {
	return &proofs{urls: perclient.NewMemory[pay.Hash, time.Time](maxProofs), sends: perclient.NewMemory[pay.Hash, refusedProof](maxProofs), now: now}
}

// refusing lists the answers that may refuse a proof.
var refusing = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict}

// proofName recognizes the repeats of a call, whatever their bodies.
func proofName(req *http.Request, call *Call, more ...string) pay.Hash {
	return pay.HashOf(append(more, call.Task, call.IdempotencyKey, methodOf(req), call.askedURL(req))...)
}

// refused notes the answer to a payment that its client will repeat.
func (p *proofs) refused(req *http.Request, call *Call, d *decision) {
	if m := call.memo; d.open && slices.Contains(refusing, d.status) {
		p.some.Store(true)
		until := m.attempt.Payment().ValidBefore()
		p.urls.Set(call.Key.ID, proofName(req, call), until)
		p.sends.Set(call.Key.ID, proofName(req, call, string(m.body.sum[:])), refusedProof{m.http1, until})
	}
}

// any reports whether the call may repeat one whose proof was refused.
func (p *proofs) any(req *http.Request, call *Call) bool {
	return p.some.Load() && !call.Anew && !call.Dry && call.Unpaid == "" && call.led.paymentID == "" && p.now().Before(p.urls.Get(call.Key.ID, proofName(req, call)))
}

// take returns what is remembered of the call that this one with a body repeats, once.
func (p *proofs) take(req *http.Request, call *Call, body content) (refusedProof, bool) {
	name := proofName(req, call, string(body.sum[:]))
	was := p.sends.Get(call.Key.ID, name)
	p.sends.Remove(call.Key.ID, name)
	return was, p.now().Before(was.until)
}

// sendProof sends a request with the payment that it repeats, and without an unpaid try, if the one before had
// a proof that was refused. It returns false if the request is to be sent as any other.
func (t *Transport) sendProof(req *http.Request, call *Call) (*http.Response, string, error, bool) {
	if !t.proofs.any(req, call) {
		return nil, "", nil, false
	}
	if _, err := call.content(req, t.spool); err != nil {
		return nil, "", nil, false
	}
	kept, err := call.whole(req)
	if err != nil {
		return nil, "", nil, false
	}
	was, known := t.proofs.take(req, call, kept)
	if !known {
		return nil, "", nil, false
	}
	m := &memo{method: methodOf(req), uri: req.URL.RequestURI(), body: kept, http1: was.http1, host: req.URL.Host, onlyRepeat: true}
	if call.job.paymentID != "" {
		err = t.openJob(req, call, m)
	} else {
		err = t.openPayment(req, call, m, "")
	}
	if err != nil {
		return nil, "", nil, false
	}
	resp, result, err := t.sendPaid(req, call, nil)
	return resp, result, err, true
}

// plainRule says which hosts may be paid over plain http. Any machine on the path could forge the
// challenge there, and read the payload.
type plainRule struct {
	hosts map[string]bool // lower case, "name" or "name:port"
	may   func(netip.Addr) bool
}

func newPlainRule(hosts []string, may func(netip.Addr) bool) (plainRule, error) {
	if may == nil { // traffic stays in the operator's networks
		may = func(a netip.Addr) bool { return a.IsLoopback() || a.IsPrivate() }
	}
	rule := plainRule{hosts: make(map[string]bool, len(hosts)), may: may}
	for _, entry := range hosts {
		host, port := entry, ""
		if h, p, err := net.SplitHostPort(entry); err == nil {
			host, port = h, ":"+p
		}
		host, err := guard.NormalHost(host)
		if err != nil {
			return plainRule{}, fmt.Errorf("allow_http %q: %w", entry, err)
		}
		rule.hosts[host+port] = true
	}
	return rule, nil
}

// decided reports whether the address does not matter.
func (r plainRule) decided(u *url.URL) bool {
	if strings.EqualFold(u.Scheme, "https") {
		return true
	}
	host, err := guard.NormalHost(u.Hostname())
	if err != nil {
		return false
	}
	return r.hosts[host] || r.hosts[host+":"+cmp.Or(u.Port(), "80")]
}

// allows reports whether a URL may be paid whose host answered from this address.
func (r plainRule) allows(u *url.URL, remote net.Addr) bool {
	if _, unix := remote.(*net.UnixAddr); unix || r.decided(u) {
		return true
	}
	if remote == nil {
		return false
	}
	addr, err := netip.ParseAddrPort(remote.String())
	return err == nil && r.may(addr.Addr().Unmap())
}
