package proxy

import (
	"crypto/sha256"
	"net/http"
	"net/url"

	"github.com/purserpay/purser/pay"
)

// open gets the call its payment: a new one, or that of an earlier request which this one
// repeats. It is ready to be sent then.
func (t *Transport) open(req *http.Request, call *Call, m *memo, again string) error {
	caller := call.caller
	if caller == nil {
		caller = req.Context()
	}
	booked := bookedURL(req.URL)
	asked := call.URL
	if asked == "" {
		asked = booked
	}
	// Sellers behind a TLS proxy often name another URL than they are reached by.
	if r := m.challenge.ResourceURL; r != "" && r != booked {
		t.log.Debug("challenge names another resource", "host", req.URL.Host)
	}
	a, err := t.payer.Open(caller, pay.Request{
		Key: call.Key, Door: t.door, Task: call.Task, Settlement: pay.SettleSeller,
		Challenge: m.challenge, Again: again, URL: booked, IdempotencyKey: call.IdempotencyKey,
		HTTP: &pay.HTTPRequest{Method: m.method, URL: asked, Body: sha256.Sum256(m.body)},
	})
	if err != nil {
		return err
	}
	if err := a.PrepareSeller(); err != nil {
		a.Finish(false)
		return err
	}
	m.attempt, m.over = a, false
	call.memo = m
	return nil
}

// matches reports whether the payload may be sent with this request as well. The host may
// differ: load balancers try several.
func (m *memo) matches(req *http.Request) bool {
	return m.method == methodOf(req) && m.uri == req.URL.RequestURI()
}

func methodOf(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}

// bookedURL is a request's URL as it goes into the books.
func bookedURL(u *url.URL) string {
	c := *u
	c.User, c.Fragment, c.RawFragment = nil, "", ""
	return c.String()
}
