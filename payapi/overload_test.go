package payapi_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/policy"
)

// A failing facilitator gets no new payments for a while, and none is journaled. Payments that were
// begun go on.
func TestFailingFacilitator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	url := func(n int) []any { return []any{"requestUrl", fmt.Sprintf("%s/%d", bought, n)} }
	w.facilitator.onSettle(hangUp)
	begun := w.call("POST", "/v1/pay", key, order(5, url(0)...)).is(402, settleFailed).want("payment.state", "open").text("payment.id")
	w.released(begun)
	w.facilitator.settle.Store(nil)
	// Refusals are verdicts, and close the breaker.
	for n := range 6 {
		w.facilitator.onVerify(says(400, `{"isValid":false,"invalidReason":"invalid_payload"}`))
		w.call("POST", "/v1/pay", key, order(5, url(100+n)...)).is(402, verifyFailed)
	}
	// Answers that blame the request count neither way, because clients make requests.
	w.facilitator.onVerify(says(400, `{"errorMessage":"description too long"}`))
	for n := range 6 {
		w.call("POST", "/v1/pay", key, order(5, url(200+n)...)).is(402, verifyFailed).want("payment.state", "open")
	}
	faults := []http.HandlerFunc{says(502, "<html>"), hangUp, says(503, `{"error":"x"}`), says(429, `{}`), says(500, `{"error":"x"}`)}
	for n, fault := range faults {
		w.facilitator.onVerify(fault)
		w.call("POST", "/v1/pay", key, order(5, url(300+n)...)).is(402, verifyFailed).want("payment.state", "open")
	}
	payments := len(w.call("GET", "/v1/payments?limit=500", key, nil).is(200, "").list("payments"))
	asked := w.facilitator.verified.Load()
	for n := range 3 {
		a := w.call("POST", "/v1/pay", key, order(5, url(400+n)...)).is(402, verifyFailed).want("payment", nil)
		if d := a.text("detail"); !strings.Contains(d, "the facilitator failed 5 times in a row, and is asked again in ") {
			t.Errorf("detail %q", d)
		}
		if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 1 || after > 5 {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
	}
	if n := len(w.call("GET", "/v1/payments?limit=500", key, nil).is(200, "").list("payments")); n != payments {
		t.Errorf("%d payments were journaled", n-payments)
	}
	if n := w.facilitator.verified.Load() - asked; n != 0 {
		t.Errorf("%d calls were made", n)
	}
	w.clock.advance(time.Second)
	w.call("GET", "/health", "", nil).is(200, "").want("facilitator.ok", false)
	// Without an RPC, the facilitator would check payments that sellers settle. It does not stop
	// them.
	w.call("POST", "/v1/pay", key, order(5, append(url(500), "settlement", "seller")...)).is(200, "")
	// A payment that was begun goes on. Here the facilitator works again, which closes the breaker.
	w.facilitator.verify.Store(nil)
	w.call("POST", "/v1/pay", key, order(5, url(0)...)).is(200, "").want("payment.id", begun)
	w.call("POST", "/v1/pay", key, order(5, url(401)...)).is(200, "")
	w.clock.advance(11 * time.Second)
	w.eventually("health hears of it", func() bool {
		return w.call("GET", "/health", "", nil).is(200, "").at("facilitator.ok") == true
	})
}

// After the wait, one payment at a time probes the facilitator.
func TestFailingFacilitatorIsTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	var n atomic.Int64
	buy := func() answer {
		t.Helper()
		return w.call("POST", "/v1/pay", key, order(5, "requestUrl", fmt.Sprintf("%s/%d", bought, n.Add(1))))
	}
	w.facilitator.onVerify(says(502, ""))
	for range 5 {
		buy().is(402, verifyFailed).want("payment.state", "open")
	}
	buy().is(402, verifyFailed).want("payment", nil)
	w.clock.advance(5 * time.Second)
	// A payment that is refused for another reason gives the probe back.
	_, poor := w.limited(policy.Policy{DailyBudget: most(1)})
	w.call("POST", "/v1/pay", poor, order(5)).is(402, refusedByPolicy).want("rule", "daily-budget")
	goOn, asked := make(chan struct{}), make(chan struct{}, 1)
	w.facilitator.onVerify(func(rw http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-goOn
		says(502, "")(rw, r)
	})
	var first answer
	var trying sync.WaitGroup
	trying.Go(func() { first = buy() })
	<-asked
	buy().is(402, verifyFailed).want("payment", nil)
	close(goOn)
	trying.Wait()
	first.is(402, verifyFailed).want("payment.state", "open")
	w.clock.advance(5 * time.Second) // twice the first wait
	buy().is(402, verifyFailed).want("payment", nil)
	w.clock.advance(5 * time.Second)
	w.facilitator.verify.Store(nil)
	buy().is(200, "")
	buy().is(200, "")
}

// flood takes every place of one key.
func (w *world) flood(key string, places int) (release func()) {
	w.t.Helper()
	goOn := make(chan struct{})
	var asked atomic.Int64
	w.facilitator.onVerify(func(rw http.ResponseWriter, r *http.Request) {
		auth := authorizationOf(r)
		if auth["value"] == "7" {
			asked.Add(1)
			<-goOn
		}
		fmt.Fprintf(rw, `{"isValid":true,"payer":%q}`, auth["from"])
	})
	var all sync.WaitGroup
	for i := range places + 30 {
		all.Go(func() {
			a, err := w.try(w.t.Context(), "POST", "/v1/pay", key, order(7, "requestUrl", fmt.Sprintf("%s/flood/%d", bought, i)))
			switch {
			case err != nil:
				w.t.Error(err)
			case a.status == 200:
			case a.status != 503 || a.at("error") != "Service unavailable" || a.header.Get("Retry-After") != "5":
				w.t.Errorf("%d %v %s", a.status, a.header, a.raw)
			}
		})
	}
	w.eventually("all places are taken", func() bool { return asked.Load() == int64(places) })
	return func() {
		close(goOn)
		all.Wait()
	}
}

// Without a place a request gets 503, and nothing is journaled for it. Other keys are served.
func TestFloodOfOneKey(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	w := newWorld(t, func(s *setup) {
		s.api.Admission = admission.Options{Concurrent: 16, Queued: 20, Wait: 300 * time.Millisecond, Refused: func() { refused.Add(1) }}
	})
	flooding, other := w.payingKey(), w.payingKey()
	release := w.flood(flooding, 12)
	began := time.Now()
	w.call("GET", "/health", "", nil).is(200, "")
	for range 20 {
		w.call("POST", "/v1/pay", other, order(5)).is(200, "")
		w.call("GET", "/v1/spend", other, nil).is(200, "")
	}
	w.call("POST", "/api-keys", "", nil).is(201, "")
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("others took %s", d)
	}
	w.eventually("who waits too long is refused", func() bool { return refused.Load() == 30 })
	release()
	if n := len(w.call("GET", "/v1/payments?limit=500", flooding, nil).is(200, "").list("payments")); n != 12 {
		t.Errorf("%d payments", n)
	}
}

// A client that sends its body slowly delays no other client, with a key or without one.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) {
		s.api.Admission = admission.Options{Concurrent: 4, Queued: 4, Wait: 100 * time.Millisecond}
	})
	key := w.payingKey()
	for i := range 200 {
		c := w.raw()
		path, header := "/api-keys", ""
		if i%2 == 0 {
			path, header = "/v1/pay", "X-Api-Key: "+key+"\r\n"
		}
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: 1000\r\n\r\n{", path, c.RemoteAddr(), header)
	}
	for range 10 {
		w.call("POST", "/v1/pay", key, order(5)).is(200, "")
		w.call("POST", "/api-keys", "", nil).is(201, "")
	}
}

func (w *world) raw() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Large bodies share a bounded amount of memory. Bodies of payments need none of it.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	hold := func() { // sends all but the end of a megabyte
		c := w.raw()
		text := fmt.Sprintf("POST /v1/pay HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", c.RemoteAddr(), key, 1<<20, strings.Repeat("x", 1<<20-1))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	for range 66 {
		hold()
	}
	large := strings.Repeat(" ", 1<<20-10)
	w.eventually("there is no room", func() bool { // wait until the last one has sent its part
		for path, text := range map[string]string{"/v1/pay": "Service unavailable", "/api-keys": keyFailed} {
			a := w.call("POST", path, key, large)
			if a.status != 503 {
				hold() // the probe may have taken the room of one of them
				return false
			}
			if a.is(503, text); a.header.Get("Retry-After") != "5" || a.text("detail") == "" {
				t.Errorf("%v %s", a.header, a.raw)
			}
		}
		return true
	})
	for range 10 {
		w.call("POST", "/v1/pay", key, order(5)).is(200, "")
	}
}

// A client that guesses keys is slowed down. A client with a right key is not, even from the same
// address.
func TestGuessing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) {
		s.api.Clock = func() time.Time { return time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC) }
	})
	key := w.newKey()
	wrong := 0
	for ; wrong < 500; wrong++ {
		a := w.call("GET", "/wallets/me", fmt.Sprintf("pk_guess_%d", wrong), nil)
		if a.status == 429 {
			a.is(429, "Too many requests")
			if a.header.Get("Retry-After") != "1" || a.text("upgradeUrl") == "" {
				t.Errorf("%v %s", a.header, a.raw)
			}
			break
		}
		a.is(401, "API key not resolved")
	}
	if wrong != 120 {
		t.Errorf("%d guesses", wrong)
	}
	w.call("GET", "/wallets/me", key, nil).is(200, "")
	w.call("GET", "/wallets/me", w.newKey(), nil).is(200, "")
}

// The body's deadline ends with the body. The answer may take longer.
func TestBodyDeadlineEnds(t *testing.T) {
	t.Parallel()
	var set []time.Time
	w := newWorld(t, func(s *setup) {
		s.wrap = func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(&deadlines{rw, &set}, r)
			})
		}
	})
	w.call("POST", "/api-keys", "", map[string]string{"label": "x"}).is(201, "")
	if len(set) != 2 || time.Until(set[0]) > 31*time.Second || time.Until(set[0]) < 20*time.Second || !set[1].IsZero() {
		t.Errorf("deadlines %v", set)
	}
}

type deadlines struct {
	http.ResponseWriter
	set *[]time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	*d.set = append(*d.set, t)
	return nil
}

// A body that is too large is not read to its end. Its client gets the answer, and the connection
// is closed.
func TestRestOfATooLargeBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.raw()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, err := fmt.Fprintf(c, "POST /api-keys HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", c.RemoteAddr(), 1<<20+1000, strings.Repeat(" ", 1<<20+1))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c) // until it is closed
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") {
		t.Errorf("%q %v", answer, err)
	}
}
