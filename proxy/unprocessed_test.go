package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// overHTTP2 is a transport to a server of proxytest.Streams.
func overHTTP2() *http.Transport {
	return &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true, //nolint:gosec // a test
	}
}

// A request that its upstream did not process is sent again with its body, be it paid for or not, and paid once.
func TestUnprocessedRequestIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]proxytest.Refusal{
		"refused": proxytest.Refuse, "refused behind the body": proxytest.RefuseLate, "went away": proxytest.GoAway, "went away with an error": proxytest.GoAwayFirst,
	} {
		for _, method := range []string{"POST", "GET", "DELETE", "PUT"} {
			for _, body := range []string{"the body", "", strings.Repeat("long", 3<<10)} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, method, len(body)), func(t *testing.T) {
					t.Parallel()
					w, s := newWorld(t), proxytest.NewSeller(t)
					seen := map[bool]int{}
					up := proxytest.NewStreams(t, s, func(r *http.Request) proxytest.Refusal {
						paid := r.Header.Get(x402.HeaderSignature) != ""
						if seen[paid]++; seen[paid] <= 2 {
							return how
						}
						return proxytest.Process
					})
					tr := w.transport(overHTTP2(), TransportOptions{})
					r := proxytest.Request(t, method, "https://"+up.Addr+"/x", strings.NewReader(body), "Idempotency-Key", "k")
					w.send(tr, w.Key, r).Paid(t)
					s.Expect(1, 1, 1)
					if s.Bodies[0] != body || up.Refused.Load() != 4 {
						t.Errorf("%d refusals, then the seller got %d bytes", up.Refused.Load(), len(s.Bodies[0]))
					}
					free := w.send(tr, w.Key, proxytest.Request(t, method, "https://"+up.Addr+"/free", strings.NewReader(body)))
					if free.Text != "free" {
						t.Errorf("%d %q", free.StatusCode, free.Text)
					}
				})
			}
		}
	}
}

// A seller that had the stream, or may have, gets a POST no second time by itself. The repeat has the same payment.
func TestProcessedRequestIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]proxytest.Refusal{"broke off": proxytest.BreakOff, "went away behind it": proxytest.GoAwayBehind} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), proxytest.NewSeller(t)
			var nonces []string
			up := proxytest.NewStreams(t, s, func(r *http.Request) proxytest.Refusal {
				p, err := x402.DecodePayload(r.Header.Get(x402.HeaderSignature))
				if err != nil {
					return proxytest.Process
				}
				nonces = append(nonces, fmt.Sprint(p))
				if len(nonces) == 1 {
					return how
				}
				return proxytest.Process
			})
			tr := w.transport(overHTTP2(), TransportOptions{})
			ask := func() proxytest.Answer {
				return w.send(tr, w.Key, proxytest.Request(t, "POST", "https://"+up.Addr+"/x", strings.NewReader("body")))
			}
			if a := ask(); a.StatusCode != http.StatusBadGateway || a.Header.Get(HeaderPayment) == "" || len(nonces) != 1 {
				t.Fatalf("%d %v after %d sends", a.StatusCode, a.Header, len(nonces))
			}
			ask().Paid(t)
			s.Expect(2, 1, 1)
		})
	}
}

// A seller that refuses for ever gets a few sends, and the payment stays open for the repeat.
func TestRefusedForEver(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	heals := false
	up := proxytest.NewStreams(t, s, func(r *http.Request) proxytest.Refusal {
		if r.Header.Get(x402.HeaderSignature) != "" && !heals {
			return proxytest.Refuse
		}
		return proxytest.Process
	})
	tr := w.transport(overHTTP2(), TransportOptions{})
	a := w.send(tr, w.Key, proxytest.Request(t, "POST", "https://"+up.Addr+"/x", strings.NewReader("body")))
	if n := up.Refused.Load(); a.Header.Get(HeaderPayment) == "" || n != maxUnprocessed+1 {
		t.Fatalf("%d %v after %d sends", a.StatusCode, a.Header, n)
	}
	heals = true
	b := w.send(tr, w.Key, proxytest.Request(t, "POST", "https://"+up.Addr+"/x", strings.NewReader("body")))
	if b.Paid(t) != a.Header.Get(HeaderPayment) {
		t.Errorf("another payment: %v", b.Header)
	}
	s.Expect(2, 1, 1)
}

// A payload that a seller has had, by its word unprocessed, has left: the payment is not void when the next
// send finds no connection.
func TestRefusedAndGone(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	next := overHTTP2()
	tr := w.transport(next, TransportOptions{})
	refused := false
	tr.next = roundTripper(func(r *http.Request) (*http.Response, error) {
		if refused {
			httptrace.ContextClientTrace(r.Context()).GetConn("gone")
			return nil, errors.New("no such host")
		}
		resp, err := next.RoundTrip(r)
		refused = err != nil && unprocessed(err)
		return resp, err
	})
	up := proxytest.NewStreams(t, s, func(r *http.Request) proxytest.Refusal {
		if r.Header.Get(x402.HeaderSignature) != "" {
			return proxytest.GoAway
		}
		return proxytest.Process
	})
	a := w.send(tr, w.Key, proxytest.Request(t, "POST", "https://"+up.Addr+"/x", strings.NewReader("body")))
	if p := a.Problem(t); p.Reason != DeclinedOpen || p.Payment == nil {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
