package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// decision says what one send of a payload has brought: decide reads the answer, and recordAnswer
// completes the decision with the payment. The payment's record, the seller's breaker, the
// client's answer and the metrics all follow it.
type decision struct {
	status int        // of the answer; 0 without one
	left   bool       // the payload may have reached the seller
	misled bool       // every connection led to an address that may not be paid
	seller sellerWord // grades the seller

	notes   []string // for the payment's story
	refused bool     // the answer is another 402
	refusal string   // the reason that the seller gave in it
	refuses bool     // the 402 says something of the payload
	said    string   // what the seller said against the payload, for people
	unseen  string   // why the 402 may be no answer to the payload; see unseen
	later   bool     // the answer is still to come, at the same URL; see comesLater

	// These follow from the payment, once the answer is recorded.
	reason string // one of the Declined words; empty: the client gets the seller's answer
	open   bool   // the client has no answer yet, so its repeat gets the payment
	result string // one of the Result words
}

// sellerWord grades the seller by an answer to a payload.
type sellerWord int

const (
	sellerSilent   sellerWord = iota // nothing: the fault is the request's, or the payload is an earlier one's
	sellerFailed                     // an error, another 402, or no answer
	sellerDelivers                   // the end of the body will tell
)

// decide reads an answer to a payload, or the error of its send. challenged is as for sendPaid.
func (t *Transport) decide(m *memo, challenged, resp *http.Response, seen *sendTrace, err error) decision {
	if err != nil {
		d := decision{left: m.answered || !seen.unconnected(), misled: seen.astray(), notes: []string{"no answer: " + errorKind(err)}}
		if !m.repeats && seen.connected.Load() && !errors.Is(err, pay.ErrLeaseLost) {
			d.seller = sellerFailed
		}
		return d
	}
	d := decision{status: resp.StatusCode, left: true}
	receipt, has, err := x402.ReceiptFromHeader(resp.Header)
	if has && err != nil {
		d.notes = append(d.notes, "receipt not readable: "+err.Error())
	}
	switch {
	case d.status == http.StatusPaymentRequired:
		challenge, found := t.readRefusal(resp)
		d.refused, d.refusal, d.refuses, d.seller = true, challenge.Error, found || !has, sellerFailed
		t.hear(&d, m, challenged, resp, challenge, has)
	case wantsAllowance(resp):
		challenge, found := t.readRefusal(resp)
		d.refused, d.refusal, d.refuses = true, challenge.Error, found
	case d.status >= http.StatusBadRequest:
		d.notes = append(d.notes, fmt.Sprintf("seller answered %d", d.status))
		if speaks(resp) {
			d.said = wordsOf(resp, t.patience)
		}
		if d.status >= http.StatusInternalServerError {
			d.seller = sellerFailed
		}
	default:
		d.seller, d.later = sellerDelivers, comesLater(m.method, resp)
	}
	if has && err == nil && receipt.ErrorReason+receipt.ErrorMessage != "" {
		d.said = "" // the receipt says it
	}
	if m.repeats && d.seller == sellerFailed { // it may be right about a payload that it has had before
		d.seller = sellerSilent
	}
	return d
}

// hear reads what a 402 to a payload says against it. Words that stood in the 402 before the payment say nothing of
// one.
func (t *Transport) hear(d *decision, m *memo, challenged, resp *http.Response, again x402.Challenge, receipted bool) {
	d.said = wordsOf(resp, t.patience)
	if d.said != "" && d.said == wordsOf(challenged, t.patience) {
		d.said = ""
	}
	if told := words.OfSeller(again.Error); told != "" && again.Error != m.challenge.Error && (d.said == told || !strings.HasPrefix(d.said, told)) {
		d.said = "" // the challenge says it
	}
	same := !receipted && d.said == "" && m.sameChallenge(again)
	if same {
		d.refusal = ""
	}
	if d.unseen = unseen(resp.Header, same, same && m.attempt.Payment().IdempotencyKey != ""); d.unseen != "" {
		d.notes = append(d.notes, d.unseen)
	}
}

// wantsAllowance reports whether a seller refuses a payload of Permit2 for want of an allowance, as the
// reference server does: by 412 instead of 402, with a challenge. The fault is the wallet's.
func wantsAllowance(resp *http.Response) bool {
	return resp.StatusCode == http.StatusPreconditionFailed && resp.Header.Get(x402.HeaderRequired) != ""
}

// readRefusal reads what a seller says in a 402, or such a 412, to a payload. If its body does not end, it is cut
// off, because the payment's lease must not be kept for ever.
func (t *Transport) readRefusal(resp *http.Response) (x402.Challenge, bool) {
	source := resp.Body
	cut := time.AfterFunc(t.patience, func() { _ = source.Close() })
	defer cut.Stop()
	challenge, found, _ := readChallenge(resp, nil)
	if challenge.Error == "" {
		challenge, found, _ = readChallenge(resp, t.extra)
	}
	return challenge, found
}

// recordReceipt has the payment take the receipt of an answer. It comes before decide, because a
// seller can keep the body of a 402 coming, and the receipt must not be lost meanwhile.
func (m *memo) recordReceipt(resp *http.Response) {
	if receipt, has, err := x402.ReceiptFromHeader(resp.Header); has && err == nil {
		m.attempt.Receipt(receipt)
	}
}

// recordAnswer has the payment take what was decided, and completes the decision with what became
// of the payment.
func (t *Transport) recordAnswer(m *memo, d *decision) {
	a := m.attempt
	for _, note := range d.notes {
		a.Observe(note)
	}
	if d.refuses {
		a.Answer402(d.refusal)
	}
	if d.said != "" {
		a.Hear(d.said)
	}
	p := a.Payment()
	switch {
	case d.status == 0:
		d.open, d.result = true, ResultUnanswered
	case d.refused:
		// A client that is told in full that the seller has the money and delivers nothing has its
		// answer. Its next request is a purchase.
		d.reason, d.open, d.result = afterSend(p), p.State != pay.Settled, ResultDeclined
	default:
		d.open, d.result = d.later || d.status >= http.StatusBadRequest, ResultPaid
	}
}

// tellSellers hands the decision to the breaker of the seller. The end of a body is heard later.
func (t *Transport) tellSellers(req *http.Request, call *Call, d *decision, resp *http.Response) {
	keyID, host, repeats := call.Key.ID, req.URL.Host, call.memo.repeats
	failed := func() {
		if !repeats && t.sellers.failed(keyID, host) {
			t.log.Warn("no new payments to a seller that does not deliver", "key", keyID, "host", host)
		}
	}
	ended := func(err error) {
		switch {
		case err == io.EOF: //nolint:errorlint // bodies return it bare
			t.sellers.delivered(keyID, host)
		case conns.Asked(req.Context()).Err() == nil: // cut, and not because the client has left
			failed()
		}
	}
	switch d.seller {
	case sellerSilent:
	case sellerFailed:
		failed()
	case sellerDelivers:
		if body, ok := resp.Body.(*watched); ok {
			body.ended = ended
		} else { // the connection speaks another protocol now
			ended(io.EOF)
		}
	}
}
