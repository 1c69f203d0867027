package payapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

func TestRepeatWithKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, other := w.payingKey(), w.payingKey()
	first := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, "").want("settled", true)
	second := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, "")
	if first.raw != second.raw {
		t.Errorf("the stored answer differs:\n%s%s", first.raw, second.raw)
	}
	// A fresh challenge for the same terms is the same request.
	fresh := order(5, "idempotencyKey", "k")
	fresh["paymentRequiredHeader"] = v1(requirement(map[string]any{"maxAmountRequired": "5", "maxTimeoutSeconds": 30, "description": "fresh"}))
	if a := w.call("POST", "/v1/pay", key, fresh).is(200, ""); a.raw != first.raw {
		t.Error(a.raw)
	}
	const reused = "idempotencyKey already used for a different request"
	w.call("POST", "/v1/pay", key, order(6, "idempotencyKey", "k")).is(400, reused)
	w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k", "requestUrl", bought+"?x")).is(400, reused)
	w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k", "settlement", "seller")).is(400, reused)
	if id := w.call("POST", "/v1/pay", other, order(5, "idempotencyKey", "k")).is(200, "").text("payment.id"); id == first.text("payment.id") {
		t.Error("another key got this key's payment")
	}
	if n, twice := w.facilitator.moved(); n != 2 || twice {
		t.Errorf("%d authorizations settled, twice: %t", n, twice)
	}
}

// A seller may ask by MPP and by x402 in turn. The call for one purchase gets one payment, in the protocol of the first
// challenge.
func TestRepeatInAnotherProtocol(t *testing.T) {
	t.Parallel()
	request := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
		`{"amount":"10000","currency":%q,"recipient":%q,"methodDetails":{"chainId":8453}}`, usdc, seller))
	byMPP := `Payment id="one", realm="seller.example", method="evm", intent="charge", request="` + request + `"`
	byX402 := v2(requirementV2(nil))
	for name, c := range map[string]struct{ first, again, header string }{
		"MPP first": {byMPP, byX402, "Authorization"}, "x402 first": {byX402, byMPP, "PAYMENT-SIGNATURE"},
	} {
		for _, idempotencyKey := range []any{nil, "k"} {
			w := newWorld(t, func(s *setup) { s.pay.Chain = &unmoved{traces: make(chan struct{}, 100)} })
			key := w.payingKey()
			ask := func(challenge string) answer {
				body := order(0, "paymentRequiredHeader", challenge, "settlement", "seller")
				if idempotencyKey != nil {
					body["idempotencyKey"] = idempotencyKey
				}
				return w.call("POST", "/v1/pay", key, body).is(200, "").want("paymentHeader", c.header)
			}
			first := ask(c.first)
			w.released(first.text("payment.id"))
			if again := ask(c.again); again.text("payment.id") != first.text("payment.id") || again.text("paymentSignature") != first.text("paymentSignature") {
				t.Errorf("%s, key %v: the repeat in another protocol got another payment: %s", name, idempotencyKey, again.raw)
			}
		}
	}
}

func TestRepeatAfterRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"insufficient_funds"}`))
	refused := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(402, verifyFailed).text("payment.id")
	w.released(refused)
	w.call("GET", "/v1/payments/"+refused, key, nil).want("payment.state", "open").want("payment.flags", []string{"refused"}).
		want("payment.reason", "insufficient_funds")
	w.facilitator.verify.Store(nil)
	// The signed authorization may still move money. The repeat must be the same request, and gets
	// the same payment.
	w.call("POST", "/v1/pay", key, order(6, "idempotencyKey", "k")).is(400, "idempotencyKey already used for a different request")
	w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, "").want("payment.id", refused)
	if n, twice := w.facilitator.moved(); n != 1 || twice {
		t.Errorf("%d authorizations settled, twice: %t", n, twice)
	}
}

// A facilitator that refuses and broadcasts all the same gets one authorization, however often the
// caller repeats.
func TestRepeatAfterALyingRefusal(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string][]any{"with key": {"idempotencyKey", "k"}, "without key": nil} {
		w := newWorld(t)
		key := w.payingKey()
		w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"insufficient_funds"}`))
		shown := map[string]bool{}
		for range 4 {
			id := w.call("POST", "/v1/pay", key, order(5, extra...)).is(402, verifyFailed).text("payment.id")
			w.released(id)
			shown[id] = true
		}
		if len(shown) != 1 {
			t.Errorf("%s: the facilitator has %d authorizations", name, len(shown))
		}
	}
}

// A facilitator that does not answer has refused nothing, and the answer says what to do about it.
func TestSilentFacilitator(t *testing.T) {
	t.Parallel()
	told := make(chan string, 10)
	w := newWorld(t, func(s *setup) { s.api.Declined = func(d pay.Decline) { told <- d.Reason } })
	key := w.payingKey()
	for _, c := range []struct {
		call func(http.HandlerFunc)
		text string
	}{{w.facilitator.onVerify, verifyFailed}, {w.facilitator.onSettle, settleFailed}} {
		c.call(hangUp)
		a := w.call("POST", "/v1/pay", key, order(5)).is(402, c.text)
		if detail := a.text("detail"); !strings.HasPrefix(detail, "the facilitator did not answer: ") || strings.Contains(detail, "refused") {
			t.Errorf("%s: %s", c.text, detail)
		}
		if !strings.HasPrefix(a.text("do.developer"), "Send the same call again") || !strings.HasPrefix(a.text("do.operator"), "purser status says since when the facilitator is down") {
			t.Errorf("%s: %s", c.text, a.text("do.developer")+a.text("do.operator"))
		}
		if reason := <-told; reason != "facilitator-silent" {
			t.Errorf("%s: declined for %s", c.text, reason)
		}
		w.facilitator.verify.Store(nil)
	}
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"invalid_payload"}`))
	a := w.call("POST", "/v1/pay", key, order(6)).is(402, verifyFailed)
	if reason := <-told; reason != "verification-refused" || !strings.HasPrefix(a.text("do.developer"), "Do not repeat the request") {
		t.Errorf("a refusal is declined for %s, %s", reason, a.text("do.developer"))
	}
}

func TestRepeatDrivesOn(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string][]any{"with key": {"idempotencyKey", "k"}, "without key": nil} {
		w := newWorld(t)
		key := w.payingKey()
		w.facilitator.onSettle(hangUp)
		open := w.call("POST", "/v1/pay", key, order(5, extra...)).is(402, settleFailed).want("payment.state", "open")
		w.released(open.text("payment.id"))
		w.facilitator.settle.Store(nil)
		w.call("POST", "/v1/pay", key, order(5, extra...)).is(200, "").want("settled", true).want("payment.id", open.text("payment.id"))
		if n, twice := w.facilitator.moved(); n != 1 || twice {
			t.Errorf("%s: %d authorizations settled, twice: %t", name, n, twice)
		}
	}
}

func TestRepeatOfExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	w.facilitator.onSettle(hangUp)
	open := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(402, settleFailed)
	w.released(open.text("payment.id"))
	w.facilitator.settle.Store(nil)
	w.clock.advance(2 * time.Minute)
	a := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(402, settleFailed).
		want("payment.id", open.text("payment.id")).want("payment.state", "open").want("facilitator", nil)
	if !strings.Contains(a.text("detail"), "not known yet") || a.header.Get("Retry-After") != "60" {
		t.Errorf("%v %s", a.header, a.raw)
	}
	if n, _ := w.facilitator.moved(); n != 0 {
		t.Error("settled after it expired")
	}
}

func TestEqualPurchasesAreSeparate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	seen := map[string]bool{}
	for range 5 {
		seen[w.call("POST", "/v1/pay", key, order(5)).is(200, "").text("payment.id")] = true
	}
	if len(seen) != 5 {
		t.Errorf("5 answered purchases were %d payments", len(seen))
	}
}

func TestConcurrentDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			a, err := w.try(t.Context(), "POST", "/v1/pay", key, order(5, "idempotencyKey", "k"))
			if err != nil || a.status != 200 {
				t.Errorf("%v %s", err, a.raw)
				return
			}
			ids[i], _ = a.at("payment.id").(string)
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("payments %v", ids)
		}
	}
	if n, twice := w.facilitator.moved(); n != 1 || twice {
		t.Errorf("%d authorizations settled, twice: %t", n, twice)
	}
}

func TestDuplicateWaitsInVain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.RepeatWait = 50 * time.Millisecond })
	key := w.payingKey()
	reached, goOn := make(chan struct{}), make(chan struct{})
	w.facilitator.onSettle(func(rw http.ResponseWriter, r *http.Request) {
		close(reached)
		<-goOn
		w.facilitator.succeed(rw, r)
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if a, err := w.try(t.Context(), "POST", "/v1/pay", key, order(5, "idempotencyKey", "k")); err != nil || a.status != 200 {
			t.Errorf("%v %s", err, a.raw)
		}
	})
	<-reached
	a := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k"))
	close(goOn)
	wg.Wait()
	a.is(402, settleFailed).want("payment.state", "open")
	if a.header.Get("Retry-After") != "5" {
		t.Error(a.header)
	}
}

// leaving makes a call whose client leaves while the facilitator's handler waits. It returns once
// the server has noticed.
func (w *world) leaving(key string, body any, place func(http.HandlerFunc), requests <-chan context.Context) {
	w.t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	place(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-reached:
		default:
			close(reached)
			<-goOn
		}
		if strings.HasSuffix(r.URL.Path, "/verify") {
			says(200, `{"isValid":true}`)(rw, r)
			return
		}
		w.facilitator.succeed(rw, r)
	})
	ctx, leave := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.try(ctx, "POST", "/v1/pay", key, body); !errors.Is(err, context.Canceled) {
			w.t.Errorf("the caller left and got %v", err)
		}
	})
	<-reached
	leave()
	wg.Wait()
	served := <-requests
	<-served.Done()
	close(goOn)
}

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verify  bool
		settled int64
		state   pay.State
	}{
		"while settling":                         {false, 1, pay.Settled},
		"between verification and settlement":    {true, 0, pay.Open},
		"while settling, repeated with key":      {false, 1, pay.Settled},
		"before settlement, repeated with a key": {true, 0, pay.Open},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := make(chan context.Context, 1)
			w := newWorld(t, func(s *setup) {
				s.wrap = func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/v1/pay" {
							select {
							case requests <- r.Context():
							default:
							}
						}
						next.ServeHTTP(rw, r)
					})
				}
			})
			key := w.payingKey()
			var extra []any
			if strings.Contains(name, "key") {
				extra = []any{"idempotencyKey", "k"}
			}
			place := w.facilitator.onSettle
			if c.verify {
				place = w.facilitator.onVerify
			}
			w.leaving(key, order(5, extra...), place, requests)
			var id string
			w.eventually("payment "+string(c.state)+" and released", func() bool {
				list, err := w.store.Payments(t.Context(), pay.PaymentQuery{KeyID: w.keyID(key), Limit: 10})
				if err != nil || len(list) != 1 {
					return false
				}
				id = list[0].ID
				return list[0].State == c.state && list[0].Lease.Owner == "" && list[0].Unanswered
			})
			if n := w.facilitator.settled.Load(); n != c.settled {
				t.Errorf("%d calls of /settle", n)
			}
			w.call("POST", "/v1/pay", key, order(5, extra...)).is(200, "").want("settled", true).want("payment.id", id)
			if n, twice := w.facilitator.moved(); n != 1 || twice {
				t.Errorf("%d authorizations settled, twice: %t", n, twice)
			}
		})
	}
}

func (w *world) keyID(secret string) string {
	w.t.Helper()
	k, err := w.payer.Resolve(w.t.Context(), secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return k.ID
}

// torn is a connection that breaks during a write or a flush.
type torn struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (c torn) Write(b []byte) (int, error) {
	if c.write != nil {
		return 0, c.write
	}
	return c.ResponseRecorder.Write(b)
}

func (c torn) FlushError() error { return c.flush }

func TestAnswerNotDelivered(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	for name, c := range map[string]struct {
		writer torn
		again  bool // the repeat gets the same payment
	}{
		"write": {torn{httptest.NewRecorder(), broken, nil}, true}, "flush": {torn{httptest.NewRecorder(), nil, broken}, true},
		"delivered": {torn{httptest.NewRecorder(), nil, nil}, false},
	} {
		w := newWorld(t)
		key := w.payingKey()
		body, _ := json.Marshal(order(5))
		r := httptest.NewRequest("POST", "/v1/pay", bytes.NewReader(body))
		r.Header.Set("X-Api-Key", key)
		w.api.ServeHTTP(c.writer, r)
		id := w.call("GET", "/v1/payments", key, nil).list("payments")[0]["id"].(string)
		if row := w.released(id); row.State != pay.Settled || row.Answered == c.again {
			t.Errorf("%s: %s, answered %t", name, row.State, row.Answered)
		}
		a := w.call("POST", "/v1/pay", key, order(5)).is(200, "").want("settled", true)
		if (a.text("payment.id") == id) != c.again {
			t.Errorf("%s: the repeat got %s after %s", name, a.text("payment.id"), id)
		}
	}
}

// meanwhile is a writer whose client has its answer, and asks again, before the writer returns.
type meanwhile struct {
	*httptest.ResponseRecorder
	flushed func()
}

func (m meanwhile) FlushError() error {
	m.flushed()
	return nil
}

// read tells when a body is first read.
type read struct {
	io.Reader
	begun func()
}

func (r read) Read(p []byte) (int, error) {
	r.begun()
	return r.Reader.Read(p)
}

// The next purchase of a client that has its answer is none too early for the door.
func TestNextPurchaseBeforeTheDoorHasWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	body, _ := json.Marshal(order(5))
	bought := func(rec *httptest.ResponseRecorder) string {
		var got struct{ Payment struct{ ID string } }
		if err := json.Unmarshal(rec.Body.Bytes(), &got); rec.Code != http.StatusOK || err != nil {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		return got.Payment.ID
	}
	ask := func(to http.ResponseWriter, begun func()) {
		r := httptest.NewRequest("POST", "/v1/pay", read{bytes.NewReader(body), begun})
		r.Header.Set("X-Api-Key", key)
		w.api.ServeHTTP(to, r)
	}
	first, second, over := httptest.NewRecorder(), httptest.NewRecorder(), make(chan struct{})
	ask(meanwhile{first, func() {
		w.clock.advance(5 * time.Second)
		begun := make(chan struct{})
		go func() {
			defer close(over)
			ask(second, sync.OnceFunc(func() { close(begun) }))
		}()
		<-begun
	}}, func() {})
	<-over
	if bought(first) == bought(second) {
		t.Error("the next purchase is taken for a repeat")
	}
}
