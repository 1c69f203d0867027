package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// errCallerUnknown reports that purser would not notice the client leaving. A payment for a client
// that has left is lost to it, and its repeat would be taken for a second purchase.
var errCallerUnknown = errors.New("the end of the client's request cannot be seen")

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
	if err := call.readKey(); err != nil {
		return err
	}
	if err := call.check(); err != nil {
		return err
	}
	if err := policy.CheckHost(req.URL); err != nil {
		return &pay.PolicyError{Rule: "hosts", Detail: err.Error()}
	}
	booked := bookedURL(req.URL)
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
	want := pay.Request{
		Key: call.Key, Door: t.door, Task: call.Task, Settlement: pay.SettleSeller,
		Challenge: m.challenge, Again: again, URL: short(req.URL, booked), IdempotencyKey: call.IdempotencyKey, Anew: call.Anew, Retried: call.Retried,
		MaxAmount: call.MaxAmount, HTTP: &pay.HTTPRequest{Method: m.method, URL: asked, Body: m.body.sum, Plain: m.body.plain}, OnlyRepeat: failing != nil || m.onlyRepeat,
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
		giveBack()
		return err
	}
	if m.repeats = a.Repeats(); m.repeats {
		m.earlier = a.Payment()
		giveBack()
	}
	t.redirects.buys(call.Key.ID, m.placed)
	m.attempt, m.ended = a, false
	call.memo = m
	return nil
}

// askedURL returns the URL that repeats of the call are recognized by. It is the same for all attempts,
// so that a further one finds the payment of the first.
func (c *Call) askedURL(req *http.Request) string {
	if c.asked == "" && c.URL != nil {
		c.asked = c.URL()
	}
	if c.asked == "" {
		c.asked = bookedURL(req.URL)
	}
	return c.asked
}

// matches reports whether the payload may be sent with this request as well. The host may
// differ: load balancers try several.
func (m *memo) matches(req *http.Request) bool {
	return m.method == methodOf(req) && m.uri == req.URL.RequestURI()
}

func methodOf(req *http.Request) string { return cmp.Or(req.Method, http.MethodGet) }

// maxBooked bounds what the books keep of a URL.
const maxBooked = 8 << 10

// short cuts a booked URL that is too long: the query first, then the path as well. It escapes bytes
// beyond UTF-8. Repeats are recognized by the whole URL as it came.
func short(u *url.URL, booked string) string {
	c := *u
	c.RawQuery, c.ForceQuery = "", false
	if len(booked) > maxBooked {
		booked = bookedURL(&c)
	}
	if len(booked) > maxBooked {
		c.Path, c.RawPath = "/", ""
		booked = bookedURL(&c)
	}
	if utf8.ValidString(booked) {
		return booked
	}
	var text strings.Builder // a query may have any bytes
	for _, b := range []byte(booked) {
		if b < utf8.RuneSelf {
			text.WriteByte(b)
		} else {
			fmt.Fprintf(&text, "%%%02X", b)
		}
	}
	return text.String()
}

// bookedURL returns a request's URL as it goes into the books.
func bookedURL(u *url.URL) string {
	c := *u
	c.User, c.Fragment, c.RawFragment = nil, "", ""
	return c.String()
}
