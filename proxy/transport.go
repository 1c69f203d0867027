// Package proxy pays on the way: its [Transport] is an http.RoundTripper that answers a seller's
// 402 with a payment. It serves the forward proxy (package forward) and the reverse-proxy
// transport. A [Call] says for whom a request is sent.
//
// A paid request goes through these files: transport.go asks without a payment, challenge.go reads
// the 402, payment.go opens the payment at the pay core, send.go sends the request with the
// payload, decision.go decides what the answer means, and answer.go writes what the client gets.
//
// The package decides nothing about money: that is the pay core's (docs/design/payments.md, surfaces.md). It
// knows neither Caddy nor the REST API nor dashboards.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/protocol"
)

// Transport is an http.RoundTripper that pays. If the answer to a request is an x402 challenge, it
// makes the payment and sends the request once more with the payload.
//
// A request is paid for only if its context has a [Call]. URLs must be absolute. The
// answer to a paid request carries the Purser-* headers of reasons.go; a 402 that was not
// paid says why in Purser-Declined and is otherwise the seller's own. Redirects are never
// followed; a 402 where the answer to a payment has led is not paid, and has no challenge.
//
// Not touched: answers other than 402, and requests that carry a payment already. A 402 without an
// x402 challenge gets a reason and stays as it is.
type Transport struct {
	payer     *pay.Payer
	next      http.RoundTripper
	door      policy.Door
	spool     *spooler
	protocols protocol.List
	carrier   carrier
	plain     plainRule
	gate      *admission.Gate // for deciding and journaling, by key
	sellers   *sellers
	redirects *redirects
	proofs    *proofs
	calls     *toolCalls
	observer  Observer
	log       *slog.Logger
	now       pay.Clock
	patience  time.Duration // with a 402 to a payload whose body does not end
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip sends the request and pays for it if need be. Once a payload may have left, an error is a
// *[SendError], which names the payment. Any other error means that nothing of ours has reached the
// seller. [ErrorResponse] turns either into an answer.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, result, err := t.roundTrip(req)
	if call := callOf(req.Context()); call != nil && call.Dry && (result == ResultDeclined || result == ResultRefused) {
		result = ResultDryRun
	}
	t.observer.Answered(result)
	return resp, err
}

// roundTrip chooses the way of a request. The string is one of the Result words.
func (t *Transport) roundTrip(req *http.Request) (*http.Response, string, error) {
	call := callOf(req.Context())
	// A URL without a host of its own could be booked, and judged, as another one.
	if call == nil || t.protocols.Carries(req.Header) || req.URL.Opaque != "" {
		return t.pass(req, new(sendTrace))
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.arrival == nil && !call.finished {
		call.arrival = t.payer.Arrive(call.Key.ID)
	}
	switch m := call.memo; {
	case m != nil && (call.finished || !m.matches(req)):
		return t.sendBeside(req, call)
	case call.finished:
		return t.pass(req, new(sendTrace))
	}
	send := t.sendUnpaid
	if call.memo != nil {
		send = t.sendAgain
	}
	resp, result, err := send(req, call)
	if err == nil {
		call.cookies.hand(req, resp)
	}
	return resp, result, err
}

// pass sends a request that is not paid for.
func (t *Transport) pass(req *http.Request, seen *sendTrace) (*http.Response, string, error) {
	waiting := t.answerTime(req)
	out := req.WithContext(seen.lookOn(waiting.ctx, waiting.written))
	if hasOwn(out.Header) {
		out.Header = out.Header.Clone()
		StripOwn(out.Header)
	}
	resp, err := t.sendThrough(out)
	if err = waiting.over(err); err == nil {
		resp, err = guarded(resp)
	}
	if err != nil {
		return nil, ResultFailed, err
	}
	return resp, ResultPassed, nil
}

// sendAgain sends a further attempt at a request that was paid for: with the same payload, and
// without an unpaid try before it.
func (t *Transport) sendAgain(req *http.Request, call *Call) (*http.Response, string, error) {
	m := call.memo
	if req.Body != nil {
		call.spare = append(call.spare, req.Body)
	}
	if m.body.gone() {
		return nil, ResultUnanswered, t.lost(req, m, errGone)
	}
	if m.ended {
		if err := t.openPayment(req, call, m, m.attempt.Payment().ID); err != nil {
			return nil, ResultUnanswered, t.lost(req, m, err)
		}
	}
	return t.sendPaid(req, call, nil)
}

// sendBeside sends an attempt that the call's payment is not for. The payload has left all the
// same, so a challenge in the answer must not reach the client, who might pay it.
func (t *Transport) sendBeside(req *http.Request, call *Call) (*http.Response, string, error) {
	m := call.memo
	out := req
	if !call.finished {
		body, err := call.content(req, t.spool)
		if err != nil {
			return nil, ResultUnanswered, t.lost(req, m, err)
		}
		out = withBody(req, body)
	}
	resp, result, err := t.pass(out, new(sendTrace))
	if err != nil {
		return nil, ResultUnanswered, t.lost(req, m, err)
	}
	carrier := t.carrierFor(req)
	carrier.arrived(resp, m.wire, nil)
	if resp.StatusCode >= http.StatusBadRequest && !m.ended {
		m.unanswered()
	}
	if carrier.asks(resp) {
		t.withhold(req, resp, m.attempt.Payment(), m.earlier, "", "402 to another request of a paid call")
		result = ResultDeclined
	}
	return resp, result, nil
}

// sendUnpaid sends a request without a payment. If the answer is a challenge that can be paid, it
// opens the payment and has the request sent with it.
func (t *Transport) sendUnpaid(req *http.Request, call *Call) (*http.Response, string, error) {
	t.redirects.arrive(req, call)
	if resp, result, err, sent := t.sendProof(req, call); sent {
		return resp, result, err
	}
	body, err := call.content(req, t.spool)
	if err != nil {
		return nil, ResultFailed, err
	}
	seen := new(sendTrace)
	resp, result, err := t.pass(withBody(req, body), seen)
	if err != nil {
		t.redirects.failed(req, call)
		return nil, result, err
	}
	return t.payAnswer(req, call, resp, seen, body == nil)
}

// payAnswer pays for the answer to an unpaid request, if that is a challenge.
func (t *Transport) payAnswer(req *http.Request, call *Call, resp *http.Response, seen *sendTrace, bodiless bool) (*http.Response, string, error) {
	carrier := t.carrierOf(req, call, resp)
	carrier.arrived(resp, nil, nil)
	if !carrier.asks(resp) {
		call.arrival.Decided()
		call.giveUp(resp)
		t.resume(req, call, resp)
		t.redirects.answered(req, call, resp)
		if call.job.paymentID != "" {
			t.redirects.begins(req, call, resp, nil)
		}
		return resp, ResultPassed, nil
	}
	call.cookies.take(req, resp)
	challenge, found, problem := carrier.offers(req, resp)
	if !found && bodiless && tellsMore(req, resp) {
		resp, seen, challenge, found, problem = t.behindPaywall(req, call, resp, seen)
	}
	if !found {
		return t.declineForeign(req, call, resp)
	}
	if call.led.paymentID != "" {
		return t.declineRedirected(req, call, resp)
	}
	unpaid := t.unpaid(req, call, seen) // an earlier payment may be for it all the same
	kept, err := call.whole(req)
	switch {
	case err != nil && unpaid != nil:
		return t.decline(req, resp, unpaid.reason, unpaid)
	case err != nil:
		return t.refuse(req, resp, err)
	}
	if problem == nil && !call.Dry && call.job.paymentID == "" && unpaid == nil {
		signed, err := t.signIn(req, call, challenge, kept, seen)
		if err != nil {
			closeBody(resp)
			return nil, ResultFailed, err
		}
		if signed != nil {
			closeBody(resp)
			carrier.arrived(signed, nil, nil)
			if resp = signed; !carrier.asks(resp) {
				call.giveUp(resp)
				t.redirects.answered(req, call, resp)
				return resp, ResultSignedIn, nil
			}
			call.cookies.take(req, resp)
			if challenge, found, problem = carrier.offers(req, resp); !found {
				return t.declineForeign(req, call, resp)
			}
		}
	}
	if problem != nil {
		// An earlier payment may answer this request all the same; a new one cannot be made.
		t.log.InfoContext(req.Context(), "challenge not readable", "key", call.Key.ID, "host", req.URL.Host, "error", problem)
		challenge.Accepts = nil
	}
	m := &memo{
		challenge: kept.fitting(challenge), method: methodOf(req), uri: req.URL.RequestURI(), body: kept, http1: resp.ProtoMajor < 2, host: req.URL.Host,
		unpaid: unpaid,
	}
	if call.job.paymentID == "" {
		err = t.openPayment(req, call, m, "")
		if rule, is := errors.AsType[*pay.PolicyError](err); is && rule.Rule == pay.RuleRedirected && !call.Dry {
			if at, unread := t.redirects.jobAt(req.Context(), req, call); unread == nil {
				call.job = at
			}
		}
	}
	if call.job.paymentID != "" {
		if err = t.openJob(req, call, m); err != nil {
			return t.refuseJob(req, call, resp, err)
		}
	}
	if err != nil {
		if problem != nil && pay.Code(err) == pay.CodeHeader {
			if err = problem; pay.Code(problem) != pay.CodeUnsupported {
				err = &pay.HeaderError{Cause: problem}
			}
		}
		return t.holdOrRefuse(req, call, resp, err)
	}
	return t.sendPaid(req, call, resp)
}

// giveUp gives the request's body up once the client has an answer with which it does not try again.
func (c *Call) giveUp(resp *http.Response) {
	if resp.StatusCode < http.StatusBadRequest {
		c.body.release()
	}
}

// withBody returns req with another body; req itself if there is none.
func withBody(req *http.Request, body *reading) *http.Request {
	if body == nil {
		return req
	}
	out := req.WithContext(req.Context())
	out.Body, out.GetBody = body, nil
	return out
}

func hasOwn(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, ownPrefix) {
			return true
		}
	}
	return false
}

// StripOwn takes out Purser-* headers: from another sender they are forged.
func StripOwn(h http.Header) {
	for name := range h {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), ownPrefix) {
			delete(h, name)
		}
	}
}

// PayOptions say how requests are paid for, at every door that sends them itself.
type PayOptions struct {
	// MaxReplay bounds how many bytes of a request body are kept in memory, to be sent again
	// with a payment or to another upstream. The rest goes into a file. Default: 1 MiB.
	MaxReplay int64
	// MaxSpool bounds a request body that is kept with the help of a file, in bytes. A
	// longer one passes, and its 402 is not paid. Default: 64 MiB; negative: no files.
	MaxSpool int64
	// SpoolDir holds these files. Default: the system's directory for temporary files.
	SpoolDir string
	// MaxReplayTotal and MaxSpoolTotal bound what all requests in flight keep in memory and
	// in files, in bytes. A key has a quarter of each, and at least room for one body.
	// The first 64 KiB of a body do not count, for up to 1,024 requests of a key at a time. If a
	// body finds no room, its 402 becomes a 503. Defaults: 256 MiB and 1 GiB.
	MaxReplayTotal, MaxSpoolTotal int64

	// MaxFailures bounds the payments in a row to one host that bring no answer, an error or
	// another 402. After them the key's new payments to that host are declined for a while.
	// Default: 5; negative: no bound.
	MaxFailures int
	// Admission bounds how many payments are decided on and journaled at once.
	Admission admission.Options

	// Protocols are the protocols in which sellers may ask for money. Default: [protocol.Spoken].
	Protocols protocol.List
	// AllowHTTP are hosts ("name" or "name:port") that may be paid over plain http although
	// their address is public.
	AllowHTTP []string
	Observer  Observer // may be nil
}

// TransportOptions configure a Transport. Payer and Next are required.
type TransportOptions struct {
	PayOptions

	Payer *pay.Payer
	// Next sends requests. It must call net/http/httptrace hooks as http.Transport does:
	// purser learns from them which address was dialled and whether a payload has left.
	// It must close every request body, as every http.RoundTripper has to.
	Next http.RoundTripper
	// Door is named by booked payments and by policies. Default: proxy.
	Door policy.Door
	// MayPayPlain says which addresses may be paid over plain http without being listed.
	// Default: loopback and private ones.
	MayPayPlain func(remote netip.Addr) bool
	Logger      *slog.Logger
	Clock       pay.Clock
}

// NewTransport makes a Transport.
func NewTransport(o TransportOptions) (*Transport, error) {
	if o.Payer == nil || o.Next == nil {
		return nil, errors.New("proxy: a payer and a transport to send with are required")
	}
	if o.Clock == nil {
		o.Clock = failpoint.Now
	}
	if o.Protocols == nil {
		o.Protocols = protocol.Spoken()
	}
	o.Observer, o.Logger = cmp.Or(o.Observer, Unobserved()), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	plain, err := newPlainRule(o.AllowHTTP, o.MayPayPlain)
	if err != nil {
		return nil, err
	}
	spool, err := newSpooler(o.PayOptions, o.Logger)
	if err != nil {
		return nil, err
	}
	return &Transport{
		payer: o.Payer, next: o.Next, door: cmp.Or(o.Door, policy.DoorProxy), spool: spool, protocols: o.Protocols, carrier: httpCarrier{o.Protocols}, plain: plain,
		gate: admission.New(o.Admission), sellers: newSellers(o.MaxFailures, o.Clock), redirects: newRedirects(o.Payer, o.Logger, o.Clock), proofs: newProofs(o.Clock), calls: newToolCalls(o.Clock),
		observer: o.Observer, log: o.Logger, now: o.Clock, patience: 30 * time.Second,
	}, nil
}

func newSpooler(o PayOptions, log *slog.Logger) (*spooler, error) {
	for _, n := range []int64{o.MaxReplay, o.MaxReplayTotal, o.MaxSpoolTotal} {
		if n < 0 {
			return nil, fmt.Errorf("proxy: replay limit of %d bytes", n)
		}
	}
	s := &spooler{
		memory: cmp.Or(o.MaxReplay, 1<<20), files: o.MaxSpool >= 0, dir: cmp.Or(o.SpoolDir, os.TempDir()), observer: o.Observer, log: log,
	}
	s.most = max(s.memory, cmp.Or(o.MaxSpool, 64<<20))
	memory := func(n int64) { s.observer.Spooled(n, 0, 0) }
	s.guaranteed = newQuota(math.MaxInt64, 0, memory)
	s.guaranteed.share = guaranteedRequests * guaranteedBytes
	s.inMemory = newQuota(cmp.Or(o.MaxReplayTotal, 256<<20), s.memory, memory)
	s.onDisk = newQuota(cmp.Or(o.MaxSpoolTotal, 1<<30), s.most, func(n int64) { s.observer.Spooled(0, n, 0) })
	if s.files {
		s.most = min(s.most, s.memory+s.onDisk.limit)
	}
	return s, nil
}

// Results of a request, for [Observer.Answered].
const (
	ResultPassed     = "passed"     // the upstream's answer, nothing was paid
	ResultPaid       = "paid"       // the upstream's answer to a payload
	ResultSignedIn   = "signed-in"  // the upstream's answer to a sign-in, nothing was paid
	ResultDeclined   = "declined"   // a 402 that was not paid, or not answered: see the Declined words
	ResultDryRun     = "dry-run"    // a 402 to a dry run, which is to pay nothing
	ResultRefused    = "refused"    // an answer of purser's own, without a send
	ResultFailed     = "failed"     // nothing came back, and nothing was paid
	ResultUnanswered = "unanswered" // nothing came back, and a payload has left or may have
	ResultTunnel     = "tunnel"     // a CONNECT that was taken over
)

// Observer hears what happens at a door that sends requests itself, for metrics and traces.
// Calls are synchronous and must be quick; they carry no secrets.
type Observer interface {
	// Answered hears one of the Result words for every request, and for every attempt at one
	// where something in front of the door makes several.
	Answered(result string)
	// Declined hears of every 402 that was not paid, but of no dry run.
	Declined(d pay.Decline)
	// Refused hears the reason of every proxy request that purser answered itself with a refusal.
	Refused(reason string)
	// TurnedAway hears of a request that a bound or a rule of purser's own refused before a seller could
	// ask for money. It hears of no upstream that fails, and of no client that still has to name its key.
	TurnedAway(d pay.Decline)
	// Tunnels hears how many tunnels are open more, or less, than before.
	Tunnels(change int)
	// Spooled hears how much more, or less, is kept of request bodies than before: bytes in
	// memory, bytes in files, and files.
	Spooled(memory, disk int64, files int)
	// Propagate puts what identifies the trace of ctx, if there is one, into the header of a
	// request that is sent under it.
	Propagate(ctx context.Context, header http.Header)
	// Inside makes a request of an intercepted connection part of a trace, if its CONNECT, whose
	// context is given, was. end is called after the request.
	Inside(connect context.Context, r *http.Request) (_ *http.Request, end func())
}

// Unobserved returns an Observer that ignores everything.
func Unobserved() Observer { return unobserved{} }

type unobserved struct{}

func (unobserved) Answered(string)                        {}
func (unobserved) Declined(pay.Decline)                   {}
func (unobserved) Refused(string)                         {}
func (unobserved) TurnedAway(pay.Decline)                 {}
func (unobserved) Tunnels(int)                            {}
func (unobserved) Spooled(int64, int64, int)              {}
func (unobserved) Propagate(context.Context, http.Header) {}
func (unobserved) Inside(_ context.Context, r *http.Request) (*http.Request, func()) {
	return r, func() {}
}
