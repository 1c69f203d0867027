package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Sellers refuse a payload in bodies of many shapes. The words reach the client and the books.
func TestRefusalsWithoutTerms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kind, body, want string }{
		"error":          {"application/json", `{"x402Version":2,"error":"insufficient_funds"}`, "insufficient_funds"},
		"details":        {"application/json", `{"error":"Settlement failed","details":"nonce too low at relayer"}`, "Settlement failed: nonce too low at relayer"},
		"errorReason":    {"application/json", `{"success":false,"errorReason":"invalid_exact_evm_payload_signature"}`, "invalid_exact_evm_payload_signature"},
		"invalidReason":  {"application/json", `{"isValid":false,"invalidReason":"expired","invalidMessage":"60 s ago"}`, "expired: 60 s ago"},
		"message":        {"application/json", `{"statusCode":402,"message":"blocked country"}`, "blocked country"},
		"problem+json":   {"application/problem+json", `{"type":"about:blank","title":"Verification failed","detail":"another chain"}`, "Verification failed: another chain"},
		"nested":         {"application/json", `{"error":{"code":"expired","message":"too late"}}`, "expired: too late"},
		"a list of text": {"application/json", `{"errors":["payment expired","x"]}`, "payment expired"},
		"verifyResponse": {"application/json", `{"verifyResponse":{"isValid":false,"invalidReason":"invalid_payload"}}`, "invalid_payload"},
		"paymentError":   {"application/json", `{"paymentError":"expired"}`, "expired"},
		"reason object":  {"application/json", `{"error":"Settlement failed","reason":{"code":"E12","message":"no gas"}}`, "Settlement failed: E12: no gas"},
		"a list":         {"application/json", `{"errors":[{"title":"No","detail":"not now"}]}`, "No: not now"},
		"in detail":      {"application/json", `{"detail":{"error":"payment_invalid","reason":"payer"}}`, "payment_invalid"},
		"object of both": {"application/json", `{"error":"Payment failed","details":{"errorReason":"expired"}}`, "Payment failed: expired"},
		"plain text":     {"text/plain; charset=utf-8", "no \x1b[2Jfunds\r\n\u202e", "no [2Jfunds"},
		"a long text":    {"text/plain", strings.Repeat("y", 90000), strings.Repeat("y", 300) + "…"},
		"markup":         {"application/json", `{"error":"<b onclick=x>no</b> <!-- pay again -->a < b"}`, "no a < b"},
		"a JSON text":    {"application/json", `"expired"`, "expired"},
		"a JSON list":    {"application/json", `[{"msg":"expired"}]`, "expired"},
		"a page":         {"text/html", "<html>no</html>", ""},
		"numbers":        {"application/json", `{"error":402,"message":null}`, ""},
		"no JSON":        {"application/json", `{"error":"x"`, ""},
	} {
		for _, status := range []int{http.StatusPaymentRequired, http.StatusForbidden} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
					s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) {
						rw.Header().Set("Content-Type", c.kind)
						rw.WriteHeader(status)
						_, _ = io.WriteString(rw, c.body)
					}
				})
				a := w.get(s.URL + "/x")
				id := a.Header.Get(HeaderPayment)
				if status != http.StatusPaymentRequired {
					if a.StatusCode != status || a.Text != c.body || c.kind != "text/html" && !strings.HasPrefix(a.Header.Get(HeaderDetail), "The seller answered 403 to the payment") {
						t.Errorf("%d %q %q", a.StatusCode, a.Text, a.Header.Get(HeaderDetail))
					}
				} else if p := a.Problem(t); p.SellerSaid != c.want || c.want != "" && !strings.Contains(p.Error, ". The seller said: "+words.Quote(c.want)) {
					t.Errorf("the client is told %q, %q", p.SellerSaid, p.Error)
				}
				if said := w.Closed(id).SellerSaid; said != c.want && (status == http.StatusPaymentRequired || c.kind != "text/plain") {
					t.Errorf("the books say %q", said)
				}
				if word := words.ReasonIn(c.want); word != "" && !strings.Contains(a.Header.Get(HeaderDetail), word) {
					t.Errorf("the header says %q", a.Header.Get(HeaderDetail))
				}
				if fund := strings.Contains(a.Header.Get(HeaderDetail), "fund the wallet 0x"); fund != (c.want == "insufficient_funds") {
					t.Errorf("the header says %q", a.Header.Get(HeaderDetail))
				}
				s.Expect(1, 1, 1)
			})
		}
	}
}

// A 402 that is not about the payment is called that.
func TestUnseenPayment(t *testing.T) {
	t.Parallel()
	const cache, kept, same = "came from a cache", "kept its first 402 under the Idempotency-Key", "the same challenge"
	for name, c := range map[string]struct {
		header []string
		reason string // of the second challenge
		key    string
		want   string
	}{
		"the same challenge":         {nil, "", "", same},
		"the same challenge, keyed":  {nil, "", "order-1", kept},
		"another reason":             {nil, "expired", "", ""},
		"Age":                        {[]string{"Age", "7"}, "", "", cache},
		"Age of 0":                   {[]string{"Age", "0"}, "expired", "", ""},
		"X-Cache":                    {[]string{"X-Cache", "MISS, HIT"}, "", "", cache},
		"X-Cache of Akamai":          {[]string{"X-Cache", "TCP_MEM_HIT from a1"}, "", "", cache},
		"X-Cache of a miss":          {[]string{"X-Cache", "Miss from cloudfront"}, "expired", "", ""},
		"CF-Cache-Status":            {[]string{"CF-Cache-Status", "HIT"}, "expired", "", cache},
		"X-Litespeed-Cache":          {[]string{"X-Litespeed-Cache", "hit,private"}, "expired", "", cache},
		"CDN-Cache":                  {[]string{"CDN-Cache", "HIT"}, "expired", "", cache},
		"Server-Timing of Akamai":    {[]string{"Server-Timing", "edge; dur=1, cdn-cache; desc=HIT"}, "expired", "", cache},
		"Server-Timing of a miss":    {[]string{"Server-Timing", "cdn-cache; desc=MISS"}, "expired", "", ""},
		"Cache-Control":              {[]string{"Cache-Control", "public, stale-while-revalidate=9"}, "expired", "", ""},
		"a look that was not used":   {[]string{"X-Cache", "MISS", "X-Cache-Lookup", "HIT from squid:3128"}, "expired", "", ""},
		"CF-Cache-Status of no copy": {[]string{"CF-Cache-Status", "DYNAMIC"}, "expired", "", ""},
		"Cache-Status":               {[]string{"Cache-Status", "Edge; fwd=stale; fwd-status=304, Origin; hit"}, "", "", cache},
		"Idempotent-Replayed":        {[]string{"Idempotent-Replayed", "true"}, "", "order-1", kept},
		"not replayed":               {[]string{"Idempotent-Replayed", "false"}, "expired", "order-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
				answer := func(rw http.ResponseWriter, r *http.Request, _ int) {
					for i := 0; i < len(c.header); i += 2 {
						rw.Header().Set(c.header[i], c.header[i+1])
					}
					s.WriteChallenge(rw, r, s.Price, c.reason)
				}
				s.Paid = answer
			})
			var header []string
			if c.key != "" {
				header = []string{"Idempotency-Key", c.key}
			}
			for range 2 { // the same key, and the same request, later
				a := w.get(s.URL+"/x", header...)
				a.Declined(t, DeclinedOpen, false)
				p, detail := a.Problem(t), a.Header.Get(HeaderDetail)
				if c.want == "" && strings.Contains(p.Error, "may not have") || !strings.Contains(p.Error, c.want) || !strings.Contains(detail, c.want) {
					t.Errorf("told %q, %q", p.Error, detail)
				}
			}
			s.Expect(2, 2, 1)
		})
	}
}

// A request that ends with its client is not called an upstream's fault.
func TestGivenUpRequest(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	req := proxytest.Request(t, "GET", "http://shop.test/x", nil)
	for reason, r := range map[string]*http.Request{DeclinedCallerGone: req.WithContext(ctx), reasonUnreachable: req} {
		a, err := proxytest.Read(ErrorResponse(r, fmt.Errorf("sending: %w", context.Canceled)), nil)
		if err != nil || a.StatusCode != http.StatusBadGateway || a.Header.Get(HeaderError) != reason {
			t.Errorf("%d %v, %v; want %s", a.StatusCode, a.Header, err, reason)
		}
	}
}
