package proxy

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/proxy/proxytest"
)

// allowanceChallenge comes with a 412 of the reference server.
const allowanceChallenge = `{"x402Version":2,"error":"permit2_allowance_required","accepts":[{}]}`

// An answer to a payload is judged once, and every party gets its part of the decision.
func TestDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := errors.New("broken off")
	connected := func() *sendTrace {
		seen := new(sendTrace)
		seen.asked.Store(true)
		seen.connected.Store(true)
		return seen
	}
	unconnected := func() *sendTrace {
		seen := new(sendTrace)
		seen.asked.Store(true)
		return seen
	}
	for name, c := range map[string]struct {
		status  int
		err     error
		seen    *sendTrace
		memo    memo
		header  http.Header
		seller  sellerWord
		left    bool
		refuses bool
		notes   []string
	}{
		"delivered":       {status: 200, left: true, seller: sellerDelivers},
		"redirect":        {status: 302, header: http.Header{"Location": {"/next"}}, left: true, seller: sellerDelivers},
		"client's fault":  {status: 404, left: true, notes: []string{"seller answered 404"}},
		"seller's fault":  {status: 500, left: true, seller: sellerFailed, notes: []string{"seller answered 500"}},
		"402":             {status: 402, left: true, seller: sellerFailed, refuses: true},
		"no allowance":    {status: 412, header: http.Header{"Payment-Required": {allowanceChallenge}}, left: true, refuses: true},
		"another 412":     {status: 412, left: true, notes: []string{"seller answered 412"}},
		"402 to a repeat": {status: 402, memo: memo{repeats: true}, left: true, refuses: true},
		"bad receipt":     {status: 500, header: http.Header{"Payment-Response": {"%"}}, left: true, seller: sellerFailed, notes: []string{"receipt not readable", "seller answered 500"}},
		"no answer":       {err: broken, seen: connected(), left: true, seller: sellerFailed, notes: []string{"no answer: connection failed"}},
		"never connected": {err: broken, seen: unconnected(), notes: []string{"no answer: connection failed"}},
		"later attempt":   {err: broken, seen: unconnected(), memo: memo{answered: true}, left: true, notes: []string{"no answer: connection failed"}},
	} {
		req := proxytest.Request(t, "GET", "http://shop.test/x", nil)
		var resp *http.Response
		var said protocol.Answer
		c.memo.wire = protocol.X402{}
		if c.err == nil {
			resp = &http.Response{StatusCode: c.status, Header: c.header, Body: io.NopCloser(strings.NewReader("{}")), Request: req}
			if resp.Header == nil {
				resp.Header = http.Header{}
			}
			var err error
			if resp, err = guarded(resp); err != nil {
				t.Fatal(err)
			}
			said = w.door.carrier.answer(resp, c.memo.wire)
		}
		d := w.door.decide(req, &c.memo, nil, resp, said, c.seen, c.err)
		told := slices.EqualFunc(d.notes, c.notes, strings.HasPrefix)
		if d.seller != c.seller || d.left != c.left || d.refuses != c.refuses || !told {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
