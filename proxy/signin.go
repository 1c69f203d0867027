package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// signIn sends a request once more that was answered with a challenge, with a signature of the wallet
// in the place of a payment: see [pay.Payer.SignIn]. It returns nil, and no error, if the request is to
// be paid for without that. A call signs in once.
func (t *Transport) signIn(req *http.Request, call *Call, challenge x402.Challenge, body content, seen *sendTrace) (*http.Response, error) {
	if call.signedIn || call.Anew || call.Dry || len(req.Header.Values(x402.HeaderSignIn)) > 0 || !challenge.OffersSignIn() {
		return nil, nil
	}
	if !maySignIn(req, seen.remote()) || call.readKey() != nil { // what is wrong with the key, the payment will tell
		return nil, nil
	}
	leave, err := t.gate.Enter(call.caller, call.Key.ID)
	if err != nil { // nor is there room for a payment
		return nil, nil
	}
	proof, err := t.payer.SignIn(call.caller, pay.SignInRequest{Key: call.Key, Door: t.door, Challenge: challenge, URL: req.URL})
	leave()
	if err != nil {
		if !errors.Is(err, pay.ErrNoSignIn) {
			t.log.WarnContext(req.Context(), "not signed in", "key", call.Key.ID, "host", req.URL.Host, "error", err)
		}
		return nil, nil
	}
	call.signedIn = true
	resp, astray, err := t.sendSignIn(req, call, body, proof)
	if astray {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sending a sign-in: %w", err)
	}
	t.log.InfoContext(req.Context(), "signed in", "key", call.Key.ID, "host", req.URL.Host, "status", resp.StatusCode)
	return resp, nil
}

// maySignIn reports whether a proof may go there: over TLS, or to this machine. Any machine on another way
// could use it as well.
func maySignIn(req *http.Request, remote net.Addr) bool {
	if strings.EqualFold(req.URL.Scheme, "https") {
		return true
	}
	if remote == nil {
		return false
	}
	addr, err := netip.ParseAddrPort(remote.String())
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

// sendSignIn sends a request with the proof of a sign-in. astray reports that no connection led where
// the proof may go, so it has not left.
func (t *Transport) sendSignIn(req *http.Request, call *Call, body content, proof string) (resp *http.Response, astray bool, err error) {
	again, err := body.reader()
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	trace := new(sendTrace)
	out := req.Clone(trace.watch(ctx, func(remote net.Addr) bool { return maySignIn(req, remote) }, cancel))
	StripOwn(out.Header)
	call.cookies.send(out)
	notCached(out.Header)
	out.Header.Set(x402.HeaderSignIn, proof)
	out.Trailer, out.GetBody = req.Trailer, nil
	switch {
	case again != nil:
		out.Body = again
		if out.ContentLength >= 0 {
			out.ContentLength = body.size
		}
	case len(req.Trailer) > 0:
		out.Body = empty{}
	default:
		out.Body, out.ContentLength = http.NoBody, 0
	}
	resp, err = t.sendThrough(out)
	if err == nil {
		resp, err = guarded(resp)
	}
	if err != nil {
		cancel(nil)
		return nil, trace.astray(), err
	}
	onClose(resp, func() { cancel(nil) })
	neverStored(resp.Header)
	return resp, false, nil
}
