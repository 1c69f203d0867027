package pay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// At the doors where purser sends the requests, the first payment to a host is one that purser has sent
// there. A host that a caller on REST has named stays new.
func TestRESTMakesNoHostKnown(t *testing.T) {
	t.Parallel()
	const site = "https://bank.example/"
	on := true
	w := newTelling(t, nil)
	payee := must(x402.ParseAddress(testSeller))
	w.set(policy.Policy{RequireApprovalNewHosts: &on, AllowPayees: []x402.Address{payee}})
	approved := func(r pay.Request) {
		t.Helper()
		_, err := w.payer.Pay(context.Background(), r)
		held, is := errors.AsType[*pay.ApprovalError](err)
		if !is {
			t.Fatalf("the first payment at %s needs a person: %v", r.Door, err)
		}
		must(w.payer.AnswerApproval(by(context.Background()), pay.ApprovalAnswering{ID: held.Approval.ID, Answer: pay.Approved}))
		w.settles(r)
	}
	approved(w.rest(pay.SettlePayer, site, "5", ""))
	for n := range 2 { // on REST, the host is known now
		w.settles(w.rest(pay.SettlePayer, fmt.Sprint(site, n), "5", ""))
	}
	approved(w.proxied(site, "5", ""))
	r := w.proxied(site+"more", "5", "")
	r.Door = policy.DoorTransport
	w.settles(r) // purser has been there
	w.tells(pay.NoticeNewHost, 2)
	w.checkBooks()
}

// by names the person who answers.
func by(ctx context.Context) context.Context {
	return pay.WithActor(ctx, pay.Actor{Kind: pay.ActorOperator})
}

// settles makes a payment whose money moves.
func (w *world) settles(r pay.Request) {
	w.t.Helper()
	a := w.mustBegin(r)
	if a.Payment().State == pay.Open {
		a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: w.sellerMoves(a.Payload())})
	}
	a.Finish(true)
	w.quiet()
}
