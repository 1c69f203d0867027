package proxy

import (
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

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
	return p.some.Load() && !call.Anew && !call.Dry && call.led.paymentID == "" && p.now().Before(p.urls.Get(call.Key.ID, proofName(req, call)))
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
