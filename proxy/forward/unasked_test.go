package forward

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Browsers ask by themselves for things that no program reads, and a HEAD brings nothing: neither buys.
func TestUnaskedRequestsBuyNothing(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		c := w.buyer()
		unpaid := []struct {
			method, path string
			header       []string
		}{
			{"OPTIONS", "/x", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET"}},
			{"HEAD", "/x", nil},
			{"GET", "/x", []string{"Sec-Purpose", "prefetch"}},
			{"GET", "/x", []string{"Sec-Purpose", "prefetch;prerender"}},
			{"GET", "/x", []string{"Sec-Purpose", "prefetch;anonymous-client-ip"}},
			{"GET", "/x", []string{"Purpose", "Prefetch"}},
			{"GET", "/x", []string{"X-Moz", "prefetch"}},
			{"GET", "/x", []string{"X-Purpose", "preview"}},
			{"GET", "/favicon.ico", []string{"Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors"}},
			{"GET", "/apple-touch-icon-precomposed.png", []string{"Sec-Fetch-Dest", "image"}},
			{"GET", "/favicon.ico", []string{"User-Agent", "Mozilla/5.0", "Accept", "image/avif,image/*,*/*;q=0.8"}},
			{"POST", "/reports", []string{"Sec-Fetch-Dest", "report"}},
			{"POST", "/reports", []string{"Content-Type", "application/reports+json"}},
			{"POST", "/reports", []string{"Content-Type", "application/csp-report; charset=utf-8"}},
			{"POST", "/ping", []string{"Content-Type", "text/ping", "Ping-To", "https://a.example/"}},
			{"GET", "/x", []string{"X-Sec-Purpose", "prefetch"}},
			{"GET", "/x", []string{"Next-Router-Prefetch", "1"}},
			{"GET", "/x", []string{"HX-Preloaded", "true"}},
			{"GET", "/.well-known/appspecific/com.chrome.devtools.json", nil},
		}
		for _, q := range unpaid {
			got := w.do(c, proxytest.Request(t, q.method, w.shop(q.path), nil, q.header...))
			got.Declined(t, proxy.DeclinedUnasked, true)
			if detail := got.Header.Get(proxy.HeaderDetail); detail == "" {
				t.Errorf("%s %v: no detail", q.method, q.header)
			}
		}
		w.seller.Expect(len(unpaid), 0, 0)
		paid := []struct {
			method, path string
			header       []string
		}{
			{"OPTIONS", "/x", nil},
			{"OPTIONS", "/y", []string{"Origin", "https://a.example"}},
			{"GET", "/x", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET"}},
			{"GET", "/favicon.ico", nil},
			{"GET", "/favicon.ico", []string{"User-Agent", "Mozilla/5.0", "Accept", "*/*"}},
			{"GET", "/manifest.json", []string{"Sec-Fetch-Dest", "manifest"}},
			{"GET", "/picture.png", []string{"Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors"}},
			{"GET", "/purpose", []string{"Purpose", "to buy"}},
		}
		for _, q := range paid {
			w.do(c, proxytest.Request(t, q.method, w.shop(q.path), nil, q.header...)).Paid(t)
		}
		w.seller.Expect(len(unpaid)+len(paid), len(paid), len(paid))
	})
}

// Alt-Svc would lead a client past purser, to a connection that is not intercepted.
func TestAltSvcIsNotRelayed(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		const elsewhere = `h3=":443"; ma=86400`
		w.seller.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Alt-Svc", elsewhere)
			rw.WriteHeader(http.StatusEarlyHints)
			switch {
			case r.Header.Get("Alt-Used") != "":
				t.Error("the seller got Alt-Used of a client that reaches it through purser")
			case strings.HasPrefix(r.URL.Path, "/free"):
				_, _ = io.WriteString(rw, "free")
			default:
				w.seller.WriteChallenge(rw, r, w.seller.Price, "")
			}
		}
		w.seller.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			rw.Header().Add("alt-svc", elsewhere)
			w.seller.Receipt(rw, n)
			rw.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(rw, "paid")
			rw.Header().Set(http.TrailerPrefix+"Alt-Svc", elsewhere)
		}
		c := w.buyer()
		for _, path := range []string{"/free", "/x", "/prefetched"} {
			r := proxytest.Request(t, "GET", w.shop(path), nil, "Alt-Used", "other.example:443")
			if path == "/prefetched" {
				r.Header.Set("Sec-Purpose", "prefetch")
			}
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
					if h.Get("Alt-Svc") != "" {
						t.Errorf("%s: Alt-Svc before the answer", path)
					}
					return nil
				},
			}))
			if got := w.do(c, r); got.Header["Alt-Svc"] != nil || got.Trailer["Alt-Svc"] != nil {
				t.Errorf("%s: %d with Alt-Svc %q %q", path, got.StatusCode, got.Header["Alt-Svc"], got.Trailer["Alt-Svc"])
			}
		}
	})
}
