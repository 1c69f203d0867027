package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// club is a seller that opens its pages to who has paid, and keeps what it is shown.
type club struct {
	*proxytest.Seller
	nonce  string // of its challenges; "": a new one each
	deny   bool   // it accepts no sign-in
	answer func(http.ResponseWriter, *http.Request)
	proofs []map[string]string
	bodies []string
}

func newClub(t *testing.T) *club {
	c := &club{}
	c.Seller = proxytest.Challenges(t, func(s *proxytest.Seller, w http.ResponseWriter, r *http.Request) {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		if value := r.Header.Get(x402.HeaderSignIn); value != "" {
			body, _ := io.ReadAll(r.Body)
			text, _ := base64.StdEncoding.DecodeString(value)
			proof := map[string]string{}
			_ = json.Unmarshal(text, &proof)
			c.proofs, c.bodies = append(c.proofs, proof), append(c.bodies, string(body))
			if !c.deny {
				if c.answer != nil {
					c.answer(w, r)
					return
				}
				w.Header().Set("Cache-Control", "public, max-age=60")
				_, _ = io.WriteString(w, "member:"+string(body))
				return
			}
		}
		nonce := c.nonce
		if nonce == "" {
			nonce = fmt.Sprintf("nonce%06d", len(s.Unpaid))
		}
		w.Header().Set(x402.HeaderRequired, withSignIn(t, "http://"+r.Host+r.URL.Path, r.Host, nonce))
		w.WriteHeader(http.StatusPaymentRequired)
	})
	return c
}

// withSignIn is a challenge with a sign-in of a host.
func withSignIn(t *testing.T, resource, host, nonce string) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(proxytest.V2Challenge("10000", resource, ""))
	if err != nil {
		t.Fatal(err)
	}
	signIn := fmt.Sprintf(`,"extensions":{"sign-in-with-x":{"info":{"domain":%q,"uri":"http://%s/","version":"1","nonce":%q,"issuedAt":%q},`+
		`"supportedChains":[{"chainId":"eip155:8453","type":"eip191"}]}}}`, host, host, nonce, time.Now().UTC().Format(time.RFC3339))
	return base64.StdEncoding.EncodeToString([]byte(strings.TrimSuffix(string(text), "}") + signIn))
}

// shown returns what the seller was shown.
func (c *club) shown() ([]map[string]string, []string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.proofs, c.bodies
}

// now changes how the seller answers.
func (c *club) now(change func(*club)) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	change(c)
}

// signingIn is a world that may sign in on loopback.
func signingIn(t *testing.T) *world {
	return newWorld(t, func(s *setup) { s.pay.DefaultPolicy.SignInHosts = []string{"127.0.0.1"} })
}

// joined buys a page, and waits until the payment is in the books.
func (w *world) joined(url string) {
	w.T.Helper()
	w.Closed(w.get(url).Paid(w.T))
}

// purser asks for a paid page again with a signature, body and all; the answer stays private.
func TestSignIn(t *testing.T) {
	t.Parallel()
	w, c := signingIn(t), newClub(t)
	w.joined(c.URL + "/page?n=1")
	c.Expect(1, 1, 1)
	for _, body := range []string{"", strings.Repeat("a long upload", 10_000)} {
		a := w.send(w.door, w.Key, proxytest.Request(t, "POST", c.URL+"/page?n=2", strings.NewReader(body)))
		if a.StatusCode != http.StatusOK || a.Text != "member:"+body || a.Header.Get("Purser-Payment") != "" ||
			a.Header.Get("Cache-Control") != "private, no-store" || a.Header.Get("Purser-Declined") != "" {
			t.Fatalf("got %d %v %.80s", a.StatusCode, a.Header, a.Text)
		}
	}
	c.Expect(5, 1, 1)
	proofs, _ := c.shown()
	if len(proofs) != 2 || "http://"+proofs[0]["domain"] != c.URL || proofs[0]["nonce"] == proofs[1]["nonce"] {
		t.Errorf("shown %v", proofs)
	}
	if len(w.Payments()) != 1 {
		t.Errorf("payments %v", w.Payments())
	}
}

// A door may leave the key to be read until it is needed: the sign-in comes first.
func TestSignInReadsTheKey(t *testing.T) {
	t.Parallel()
	w, c := signingIn(t), newClub(t)
	w.joined(c.URL + "/page?n=1")
	call := NewCall(pay.Key{ID: w.Key.ID}, "", "")
	call.ReadKey = func(ctx context.Context) (pay.Key, error) { return w.Key, ctx.Err() }
	if a := w.must(w.door, call, proxytest.Request(t, "GET", c.URL+"/page?n=2", nil)); a.Text != "member:" || len(w.Payments()) != 1 {
		t.Errorf("%d %q, %d payments", a.StatusCode, a.Text, len(w.Payments()))
	}
}

// A call signs in once, and then pays; a nonce is signed once, also for another seller.
func TestSignInIsRefused(t *testing.T) {
	t.Parallel()
	w, c, thief := signingIn(t), newClub(t), newClub(t)
	w.joined(c.URL + "/page")
	w.joined(thief.URL + "/page")
	c.now(func(c *club) { c.deny, c.nonce = true, "thesamenonce" })
	thief.now(func(c *club) { c.nonce = "thesamenonce" })
	for range 2 {
		w.joined(c.URL + "/page")
	}
	w.joined(thief.URL + "/page")
	proofs, _ := c.shown()
	stolen, _ := thief.shown()
	if len(proofs) != 1 || len(stolen) != 0 || len(w.Payments()) != 5 {
		t.Errorf("shown %v and %v, %d payments", proofs, stolen, len(w.Payments()))
	}
}

// Nothing is signed for another key, a client that signs in or wants to buy, or another site's challenge.
func TestNoSignIn(t *testing.T) {
	t.Parallel()
	w, c := signingIn(t), newClub(t)
	w.joined(c.URL + "/page")
	another, _ := w.NewKey()
	for name, ask := range map[string]func() proxytest.Answer{
		"another key": func() proxytest.Answer {
			return w.send(w.door, another, proxytest.Request(t, "GET", c.URL+"/page", nil))
		},
		"another page": func() proxytest.Answer { return w.get(c.URL + "/page/2") },
		"anew": func() proxytest.Answer {
			call := NewCall(w.Key, "", "")
			call.Anew = true
			defer call.Finish(true)
			return w.must(w.door, call, proxytest.Request(t, "GET", c.URL+"/page", nil))
		},
	} {
		if a := ask(); a.StatusCode != http.StatusOK || a.Header.Get("Purser-Payment") == "" {
			t.Errorf("%s: %d %v", name, a.StatusCode, a.Header)
		}
	}
	if proofs, _ := c.shown(); len(proofs) != 0 {
		t.Errorf("shown %v", proofs)
	}

	dry := NewCall(w.Key, "", "")
	dry.Dry = true
	if a := w.must(w.door, dry, proxytest.Request(t, "GET", c.URL+"/page", nil)); a.StatusCode != http.StatusPaymentRequired {
		t.Errorf("dry run: %d %v", a.StatusCode, a.Header)
	}
	dry.Finish(true)
	if proofs, _ := c.shown(); len(proofs) != 0 {
		t.Errorf("a dry run has shown %v", proofs)
	}

	// The client's own sign-in goes through as it is.
	own := base64.StdEncoding.EncodeToString([]byte(`{"nonce":"client"}`))
	if a := w.get(c.URL+"/page", x402.HeaderSignIn, own); a.StatusCode != http.StatusOK || a.Text != "member:" {
		t.Errorf("got %d %s", a.StatusCode, a.Text)
	}
	if proofs, _ := c.shown(); len(proofs) != 1 || proofs[0]["nonce"] != "client" {
		t.Errorf("shown %v", proofs)
	}

	// This one's challenge is for another site, to which it could be carried.
	relay := proxytest.Challenges(t, func(_ *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get(x402.HeaderSignIn) != "" {
			t.Error("signed in to another site's challenge")
		}
		host := strings.TrimPrefix(c.URL, "http://")
		rw.Header().Set(x402.HeaderRequired, withSignIn(t, "http://"+r.Host+"/page", host, "relayednonce"))
		rw.WriteHeader(http.StatusPaymentRequired)
	})
	w.joined(relay.URL + "/page")
	w.joined(relay.URL + "/page")

	// Without the policy, nothing is signed at all.
	careful := newWorld(t)
	careful.joined(c.URL + "/page")
	careful.joined(c.URL + "/page")
	if proofs, _ := c.shown(); len(proofs) != 1 {
		t.Errorf("shown %v", proofs)
	}
}

// Errors, redirects and broken connections are the seller's answer: nothing is paid for them.
func TestSignInAnswers(t *testing.T) {
	t.Parallel()
	w, c := signingIn(t), newClub(t)
	w.joined(c.URL + "/page")
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		status int
	}{
		"not found": {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotFound) }, http.StatusNotFound},
		"redirect": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://elsewhere.example/", http.StatusFound)
		}, http.StatusFound},
		"hangs up": {func(rw http.ResponseWriter, _ *http.Request) { proxytest.HangUp(rw) }, http.StatusBadGateway},
	} {
		c.now(func(c *club) { c.answer = tt.answer })
		if a := w.send(w.door, w.Key, proxytest.Request(t, "POST", c.URL+"/page", strings.NewReader("x"))); a.StatusCode != tt.status {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.Text)
		}
	}
	c.now(func(c *club) {
		c.answer = func(rw http.ResponseWriter, _ *http.Request) { // a 402 of another kind
			rw.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(rw, "subscribe")
		}
	})
	if a := w.get(c.URL + "/page"); a.StatusCode != http.StatusPaymentRequired || a.Text != "subscribe" || a.Header.Get("Purser-Declined") != "no-challenge" {
		t.Errorf("got %d %v %s", a.StatusCode, a.Header, a.Text)
	}
	if len(w.Payments()) != 1 {
		t.Errorf("payments %v", w.Payments())
	}
}

// A proof goes over TLS or stays on this machine, also where plain http is paid.
func TestSignInNeedsAPrivateWay(t *testing.T) {
	t.Parallel()
	for address, may := range map[string]bool{"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "10.0.0.7": false, "192.0.2.1": false} {
		if got := maySignIn(proxytest.Request(t, "GET", "http://api.example.com/", nil), &net.TCPAddr{IP: net.ParseIP(address), Port: 80}); got != may {
			t.Errorf("%s: %v", address, got)
		}
	}
	plain, secure := proxytest.Request(t, "GET", "http://api.example.com/", nil), proxytest.Request(t, "GET", "https://api.example.com/", nil)
	if maySignIn(plain, nil) || !maySignIn(secure, nil) || !maySignIn(secure, &net.TCPAddr{IP: net.ParseIP("192.0.2.1")}) {
		t.Error("not by the scheme")
	}

	// The first connection is local, and the next ones lead elsewhere, where purser pays: the proof stays here.
	w, c := signingIn(t), newClub(t)
	w.joined(c.URL + "/page")
	var dials atomic.Int32
	dial := (&net.Dialer{}).DialContext
	tr := w.transport(&http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if n := dials.Add(1); err == nil && n > 1 {
			return addressed{conn, &net.TCPAddr{IP: net.ParseIP("10.0.0.7"), Port: 80}}, nil
		}
		return conn, err
	}}, TransportOptions{})
	call := NewCall(w.Key, "", "")
	a, err := w.trip(tr, call, proxytest.Request(t, "GET", c.URL+"/page", nil))
	call.Finish(err == nil)
	if proofs, _ := c.shown(); err != nil || a.Header.Get("Purser-Payment") == "" || len(proofs) != 0 {
		t.Errorf("shown %v: %+v, %v", proofs, a, err)
	}
}

// However often a call is sent, it signs in once.
func TestSignInOncePerCall(t *testing.T) {
	t.Parallel()
	w, c := signingIn(t), newClub(t)
	w.joined(c.URL + "/page")
	c.now(func(c *club) {
		c.answer = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) }
	})
	call := w.call()
	for n, want := range []int{http.StatusInternalServerError, http.StatusOK} {
		if a := w.must(w.door, call, proxytest.Request(t, "GET", c.URL+"/page", nil)); a.StatusCode != want {
			t.Errorf("attempt %d: %d %s", n, a.StatusCode, a.Text)
		}
	}
	call.Finish(true)
	if proofs, _ := c.shown(); len(proofs) != 1 || len(w.Payments()) != 2 {
		t.Errorf("shown %v, %d payments", proofs, len(w.Payments()))
	}
}
