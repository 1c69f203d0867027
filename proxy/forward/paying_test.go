package forward

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	wire "github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

func TestPays(t *testing.T) {
	t.Parallel()
	none := func() io.Reader { return nil }
	for _, v1 := range []bool{false, true} {
		for _, c := range []struct {
			name, method string
			body         func() io.Reader
			want         string
		}{
			{"get", "GET", none, "paid:GET:"},
			{"post", "POST", func() io.Reader { return strings.NewReader("question") }, "paid:POST:question"},
			{"post without body", "POST", none, "paid:POST:"},
			{"chunked", "PUT", func() io.Reader {
				return io.MultiReader(strings.NewReader("in "), strings.NewReader("parts"))
			}, "paid:PUT:in parts"},
			{"delete", "DELETE", none, "paid:DELETE:"},
			{"unusual method", "PROPFIND", none, "paid:PROPFIND:"},
		} {
			t.Run(fmt.Sprintf("%s, v1 %t", c.name, v1), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.V1 = v1 })
				a := w.do(w.agent(), proxytest.Request(t, c.method, s.URL+"/thing?q=1", c.body()))
				id := a.Paid(t)
				if a.Text != c.want {
					t.Errorf("body %q, want %q", a.Text, c.want)
				}
				for name, want := range map[string]string{
					proxy.HeaderAmount: "10000", proxy.HeaderTransaction: proxytest.Transaction(1), "Cache-Control": "private",
				} {
					if got := a.Header.Get(name); got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
				if _, has, err := x402.ReceiptFromHeader(a.Header); !has || err != nil {
					t.Errorf("the seller's receipt is not there: %v %v", has, err)
				}
				s.Expect(1, 1, 1)
				p := w.Closed(id)
				if p.State != pay.Settled || !p.Answered || p.Transaction != proxytest.Transaction(1) || p.RequestURL != s.URL+"/thing?q=1" || p.Door != policy.DoorProxy {
					t.Errorf("in the books: %+v", p)
				}
			})
		}
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	w := newWorld(t, func(s *setup) { s.forward.MaxReplay, s.forward.MaxSpool = limit, -1 })
	for _, c := range []struct {
		name    string
		size    int
		chunked bool
		paid    bool
	}{
		{"at", limit, false, true},
		{"at, chunked", limit, true, true},
		{"above", limit + 1, false, false},
		{"above, chunked", limit + 1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := proxytest.Challenges(t, func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				s.WriteChallenge(rw, r, s.Price, "Payment required")
			})
			data := make([]byte, c.size)
			_, _ = rand.Read(data)
			var body io.Reader = bytes.NewReader(data)
			if c.chunked {
				body = io.MultiReader(body)
			}
			a := w.do(w.agent(), proxytest.Request(t, "POST", s.URL+"/upload", body))
			if !c.paid {
				a.Declined(t, proxy.DeclinedBodyTooLarge, true)
				s.Expect(1, 0, 0)
				return
			}
			a.Paid(t)
			if a.Text != "paid:POST:"+string(data) {
				t.Errorf("%d bytes came back changed", len(a.Text))
			}
		})
	}
}

// A client that pays by itself is not helped.
func TestOwnPaymentHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{x402.HeaderSignature, x402.HeaderV1Payment} {
		var got string
		s := proxytest.NewSeller(t)
		s.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			got = r.Header.Get(name)
			s.WriteChallenge(rw, r, s.Price, "no")
		})
		a := w.get(s.URL+"/x", name, "mine")
		if a.StatusCode != 402 || a.Header.Get(proxy.HeaderDeclined) != "" || a.Header.Get(x402.HeaderRequired) == "" || got != "mine" {
			t.Errorf("%s: %d %v, seller got %q", name, a.StatusCode, a.Header, got)
		}
	}
}

// A challenge that purser does not pay reaches the client with the reason, and nothing is signed. It asks
// for another domain, asset or network, for an allowance instead of a transfer, or cannot be read.
func TestDeclines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	header := func(values ...string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()[http.CanonicalHeaderKey(x402.HeaderRequired)] = values
			rw.WriteHeader(402)
			_, _ = io.WriteString(rw, `{"kept":true}`)
		}
	}
	body := func(text string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(402)
			_, _ = io.WriteString(rw, text)
		}
	}
	good := string(proxytest.V1Challenge("10000", "http://x/", ""))
	with := func(old, replacement string) http.HandlerFunc {
		changed := strings.Replace(good, old, replacement, 1)
		if changed == good {
			t.Fatalf("no %s", old)
		}
		return body(changed)
	}
	amount := `"maxAmountRequired":"10000"`
	v2 := proxytest.V2Challenge("10000", "http://x/", "")
	for name, c := range map[string]struct {
		reason    string
		challenge http.HandlerFunc
	}{
		"malformed": {proxy.DeclinedUnreadable, header("%%%")},
		"malformed, with body": {proxy.DeclinedUnreadable, func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set(x402.HeaderRequired, "%%%")
			body(good)(rw, r)
		}},
		"two challenges":       {proxy.DeclinedUnreadable, header(v2, proxytest.V2Challenge("20000", "http://x/", ""))},
		"oversized header":     {proxy.DeclinedUnreadable, header(strings.Repeat("A", 200_000))},
		"oversized body":       {proxy.DeclinedUnreadable, body(`{"x402Version":1,"accepts":[` + strings.Repeat(" ", 70_000) + `]}`)},
		"nothing":              {proxy.DeclinedUnreadable, body(`{"x402Version":1,"accepts":[]}`)},
		"dear":                 {"per-payment", header(proxytest.V2Challenge("1000001", "http://x/", ""))},
		"other asset":          {proxy.DeclinedUnsupported, with(proxytest.USDCAddress, proxytest.SellerAddress)},
		"test network's asset": {proxy.DeclinedUnsupported, with(proxytest.USDCAddress, "0x036CbD53842c5426634e7929541eC2318f3dCF7e")},
		"other network":        {proxy.DeclinedUnsupported, with(`"base"`, `"polygon"`)},
		"test network":         {proxy.DeclinedUnsupported, with(`"base"`, `"base-sepolia"`)},
		"unknown network":      {proxy.DeclinedUnsupported, with(`"base"`, `"eip155:8453 "`)},
		"domain's name":        {proxy.DeclinedUnsupported, with(`"USD Coin"`, `"Dollar"`)},
		"domain's version":     {proxy.DeclinedUnsupported, with(`"version":"2"`, `"version":"1"`)},
		"permit2":              {proxy.DeclinedUnsupported, with(`"extra":{`, `"extra":{"assetTransferMethod":"permit2",`)},
		"upto":                 {proxy.DeclinedUnsupported, with(`"exact"`, `"upto"`)},
		"batch":                {proxy.DeclinedUnsupported, with(`"exact"`, `"batch-settlement"`)},
		"unknown scheme":       {proxy.DeclinedUnsupported, with(`"exact"`, `"stream"`)},
		"amount in parts":      {proxy.DeclinedUnreadable, with(amount, `"maxAmountRequired":10000.5`)},
		"negative amount":      {proxy.DeclinedUnreadable, with(`"10000"`, `"-1"`)},
		"amount with point":    {proxy.DeclinedUnreadable, with(`"10000"`, `"0.01"`)},
		"huge amount":          {proxy.DeclinedUnreadable, with(`"10000"`, `"`+strings.Repeat("9", 90)+`"`)},
		"no payee":             {proxy.DeclinedUnreadable, with(`"payTo"`, `"payFrom"`)},
		"odd payee":            {proxy.DeclinedUnreadable, with(`"payTo":"`+proxytest.SellerAddress, `"payTo":"0x1234`)},
		"expired":              {"validity", with(`"maxTimeoutSeconds":60`, `"maxTimeoutSeconds":5`)},
	} {
		t.Run(name, func(t *testing.T) {
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.Challenge = c.challenge })
			a := w.get(s.URL + "/x")
			a.Declined(t, c.reason, true)
			if a.Header.Get(proxy.HeaderPayment) != "" || a.Header.Get(proxy.HeaderError) != "" {
				t.Errorf("headers of a payment: %v", a.Header)
			}
			s.Expect(1, 0, 0)
		})
	}
	if n := len(w.Payments()); n != 0 {
		t.Errorf("%d payments", n)
	}
}

// A challenge may come in another header. A challenge in a header counts, whatever the body says.
func TestChallengeHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.forward.Protocols = wire.Spoken("X-Pay-Me") })
	for _, name := range []string{"X-Pay-Me", x402.HeaderRequired} {
		s := proxytest.Challenges(t, func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set(name, proxytest.V2Challenge("10000", "http://x/", ""))
			rw.WriteHeader(402)
			_, _ = rw.Write(proxytest.V1Challenge("20000", "http://x/", ""))
		})
		a := w.get(s.URL + "/x")
		if a.Paid(t); a.Header.Get(proxy.HeaderAmount) != "10000" || s.Bought[0].Header.Get(x402.HeaderV1Payment) != "" {
			t.Errorf("%s: %v", name, a.Header)
		}
	}
}

func TestCompressedChallenge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for coding, pack := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		"Deflate": func(w io.Writer) io.WriteCloser { // bare, as some send it
			z, _ := flate.NewWriter(w, flate.BestSpeed)
			return z
		},
		"zstd": func(w io.Writer) io.WriteCloser {
			z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
			return z
		},
	} {
		t.Run(coding, func(t *testing.T) {
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
				s.V1 = true
				s.Challenge = func(rw http.ResponseWriter, _ *http.Request) {
					rw.Header().Set("Content-Encoding", coding)
					rw.WriteHeader(402)
					z := pack(rw)
					_, _ = z.Write(proxytest.V1Challenge("10000", "http://x/", ""))
					_ = z.Close()
				}
			})
			w.get(s.URL+"/x", "Accept-Encoding", coding).Paid(t)
		})
	}
}

// The shipped defaults: 1 USDC for one payment, 10 USDC in a day.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.Price = "1000000" })
	for range 10 {
		w.get(s.URL + "/x").Paid(t)
	}
	w.get(s.URL+"/x").Declined(t, "daily-budget", true)
	s.Expect(11, 10, 10)
}

// A compressed challenge that unpacks to more than a challenge can be is not paid.
func TestCompressionBomb(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.Challenges(t, func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		rw.WriteHeader(402)
		z := gzip.NewWriter(rw)
		_, _ = io.WriteString(z, `{"x402Version":1,"accepts":[`)
		_, _ = z.Write(bytes.Repeat([]byte(" "), 1<<20))
		_ = z.Close()
	})
	a := w.get(s.URL+"/x", "Accept-Encoding", "gzip")
	if a.StatusCode != 402 || a.Header.Get(proxy.HeaderDeclined) != proxy.DeclinedUnreadable || a.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
}
