package mppshop

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"
)

// lateness passes before a late seller settles, if the path has no number of milliseconds.
const lateness = 300 * time.Millisecond

// rotations are the plays of a seller that asks anew, though it has a credential.
func rotations() []Play {
	return []Play{
		{Name: "weather", About: "an honest seller: a fresh challenge with every 402", Outcome: Delivered},
		{Name: "denies", About: "denies N times (1), then settles", Outcome: Delivered, paid: func(v *visit, one *sale) {
			if v.nth() <= v.times(1) {
				v.demand(problemVerify, "not yet")
				return
			}
			v.deliver(one)
		}},
		{Name: "settles-denies", About: "settles, denies N times (1), then delivers", Outcome: Delivered, paid: moved(func(v *visit, one *sale) {
			if v.nth() <= v.times(1) {
				v.demand(problemVerify, "not yet")
				return
			}
			v.send(one)
		})},
		{Name: "deaf", About: "settles, and denies for ever", Outcome: Taken, paid: moved(func(v *visit, _ *sale) {
			v.demand(problemRequired, "Payment is required.")
		})},
		{Name: "dead", About: "never settles, and denies for ever", Outcome: Refused, paid: func(v *visit, _ *sale) {
			v.demand(problemRequired, "Payment is required.")
		}},
		{Name: "late", About: "denies, and settles N milliseconds later; then delivers", Outcome: Delivered, paid: func(v *visit, one *sale) {
			if one.receipt.Success {
				v.send(one)
				return
			}
			if v.nth() == 1 {
				v.settleLate(one)
			}
			v.demand(problemVerify, "not yet")
		}},
		{Name: "late-deaf", About: "denies for ever, and settles N milliseconds after the first time", Outcome: Taken, paid: func(v *visit, one *sale) {
			if v.nth() == 1 {
				v.settleLate(one)
			}
			v.demand(problemVerify, "no")
		}},
		{Name: "late-gift", About: "delivers without a receipt, and settles N milliseconds later", Outcome: Delivered, paid: func(v *visit, one *sale) {
			if v.nth() == 1 {
				v.settleLate(one)
			}
			v.send(one)
		}},
		{Name: "twins", About: "the same id for all requests within N milliseconds (1000)", Outcome: Delivered, offers: func(v *visit, o *offer) {
			window := time.Duration(v.times(1000)) * time.Millisecond
			o.challenges[0].Expires = stamp(v.o.Now().Truncate(window).Add(v.o.Validity))
		}},
		{Name: "storm", About: "by chance: denies before and after settling, loses answers before and after; keeps to an answer", Outcome: Delivered, paid: storm},
	}
}

// storm meets each credential with trouble two times at most. It denies no payload of x402, where a 402 is a refusal.
func storm(v *visit, one *sale) {
	v.mu.Lock()
	chance, seen := v.chance.Float64(), one.seen
	v.mu.Unlock()
	switch {
	case seen > 2, one.byX402 && chance < .4:
		v.deliver(one)
	case chance < .2:
		v.demand(problemVerify, "not yet")
	case chance < .4:
		moved(func(v *visit, _ *sale) { v.demand(problemVerify, "not yet") })(v, one)
	case chance < .5:
		moved(func(v *visit, _ *sale) { v.drop() })(v, one)
	case chance < .55:
		v.drop()
	default:
		v.deliver(one)
	}
}

// losses are the plays of a seller that answers badly, or not at all.
func losses() []Play {
	status := func(code int, kind problem) func(v *visit, one *sale) {
		return func(v *visit, _ *sale) { v.fail(code, kind, http.StatusText(code), "") }
	}
	once := func(code int, kind problem) func(v *visit, one *sale) {
		return func(v *visit, one *sale) {
			if v.nth() <= v.times(1) {
				v.fail(code, kind, http.StatusText(code), "")
				return
			}
			v.send(one)
		}
	}
	lost := func(then func(v *visit, one *sale)) func(v *visit, one *sale) {
		return moved(func(v *visit, one *sale) {
			if v.nth() == 1 {
				v.drop()
				return
			}
			then(v, one)
		})
	}
	return []Play{
		{Name: "lost", About: "settles, loses the answer, delivers at the next time", Outcome: Delivered, paid: lost((*visit).send)},
		{Name: "lost-before", About: "loses the connection, settles at the next time", Outcome: Delivered, paid: func(v *visit, one *sale) {
			if v.nth() == 1 {
				v.drop()
				return
			}
			v.deliver(one)
		}},
		{Name: "used", About: "settles, loses the answer, and says 403 to the same credential", Outcome: Taken, paid: lost(status(http.StatusForbidden, problemVerify))},
		{Name: "used-denies", About: "settles, loses the answer, and asks anew when the credential comes again", Outcome: Taken, paid: lost(func(v *visit, _ *sale) {
			v.demand(problemVerify, "Transaction hash has already been used")
		})},
		{Name: "broken", About: "settles, and says 500 for ever", Outcome: Taken, paid: moved(status(http.StatusInternalServerError, problemInside))},
		{Name: "broken-once", About: "settles, says 500 N times (1), then delivers", Outcome: Delivered, paid: moved(once(http.StatusInternalServerError, problemInside))},
		{Name: "broken-before", About: "says 500, and never settles", Outcome: Refused, paid: status(http.StatusInternalServerError, problemInside)},
		{Name: "forbidden", About: "says 403 verification-failed, and never settles", Outcome: Refused, paid: status(http.StatusForbidden, problemVerify)},
		{Name: "conflict", About: "settles, and says 409", Outcome: Taken, paid: moved(status(http.StatusConflict, problemVerify))},
		{Name: "conflict-before", About: "says 409, and never settles", Outcome: Refused, paid: status(http.StatusConflict, problemVerify)},
		{Name: "redirect", About: "answers a credential by a redirect to another origin", Outcome: Refused, paid: redirect},
		{
			Name: "redirect-other", About: "the same with the credential in Payment-Authorization", Outcome: Refused, Header: HeaderPayment,
			place: HeaderPayment, offers: placed(HeaderPayment), paid: redirect,
		},
	}
}

// redirect leads to the shop by another name, which is another origin.
func redirect(v *visit, _ *sale) {
	scheme, name := "http", "127.0.0.1"
	if v.r.TLS != nil {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(v.r.Host)
	if err != nil {
		host = v.r.Host
	}
	if host == name {
		name = "localhost"
	}
	if port != "" {
		name = net.JoinHostPort(name, port)
	}
	before := strings.TrimSuffix(v.r.RequestURI, v.r.URL.RequestURI()) // what a mux has taken from the path
	v.w.Header().Set("Location", scheme+"://"+name+before+"/"+caught)
	v.w.WriteHeader(http.StatusTemporaryRedirect)
}

// times is the number in the path, or another without one.
func (v *visit) times(without int) int {
	if v.n < 0 {
		return without
	}
	return v.n
}

// moved settles before the rest.
func moved(then func(v *visit, one *sale)) func(v *visit, one *sale) {
	return func(v *visit, one *sale) {
		if v.settle(one) {
			then(v, one)
		}
	}
}

// settleLate settles after the answer. Close waits for it.
func (v *visit) settleLate(one *sale) {
	wait := lateness
	if v.n >= 0 {
		wait = time.Duration(v.n) * time.Millisecond
	}
	ctx := context.WithoutCancel(v.r.Context())
	v.late.Go(func() {
		time.Sleep(wait)
		one.mu.Lock()
		defer one.mu.Unlock()
		if no := v.settled(ctx, one); no != nil {
			v.o.Logger.Error("a late settlement failed", "reason", no.detail)
		}
	})
}
