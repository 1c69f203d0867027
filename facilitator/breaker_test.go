package facilitator_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/pay"
)

// ready asks whether the key may begin a payment, and gives the turn back.
func ready(c *facilitator.Client, key string) error {
	giveBack, err := c.Ready(key)
	giveBack()
	return err
}

// A key's requests make the facilitator fail. Its payments stop, and those of other keys go on.
func TestOneKeyCannotStopOthers(t *testing.T) {
	t.Parallel()
	var fault atomic.Pointer[http.HandlerFunc]
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "crash") {
			(*fault.Load())(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"isValid":true}`)
	})
	for name, f := range map[string]http.HandlerFunc{
		"crashes":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"is gone":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"has too much": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"babbles":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"hangs up":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"hangs":        func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		fault.Store(&f)
		now := time.Now()
		timeout, calls := 20*time.Second, 12
		// Each call waits for the timeout. An answer must also come within it.
		if name == "hangs" {
			timeout, calls = time.Second, 6
		}
		c := newClient(t, facilitator.Options{URL: url, Timeout: timeout, Clock: func() time.Time { return now }})
		good, _ := exchange(t)
		good.KeyID = "good"
		bad := pay.Exchange{Payload: good.Payload, Requirement: []byte(`{"x":"crash"}`), KeyID: "bad"}
		for range calls {
			if _, err := c.Verify(t.Context(), bad); err == nil {
				t.Fatalf("%s: a verdict", name)
			}
			if err := ready(c, "good"); err != nil {
				t.Fatalf("%s: another key's payments stop: %v", name, err)
			}
		}
		if err := ready(c, "bad"); err == nil || c.Failing() == nil {
			t.Errorf("%s: the key goes on (%v), health says %v", name, err, c.Failing())
		}
		must(c.Verify(t.Context(), good))
		if err := ready(c, "bad"); err == nil || c.Failing() != nil {
			t.Errorf("%s: after another key's success the key goes on (%v), and health says %v", name, err, c.Failing())
		}
		now = now.Add(time.Minute)
		first, err := c.Ready("bad")
		if err != nil {
			t.Errorf("%s: never asked again: %v", name, err)
		}
		if err := ready(c, "bad"); err == nil {
			t.Errorf("%s: more than one is let through", name)
		}
		first()
		must(c.Verify(t.Context(), pay.Exchange{Payload: good.Payload, Requirement: good.Requirement, KeyID: "bad"}))
		if err := ready(c, "bad"); err != nil {
			t.Errorf("%s: a success does not let the key go on: %v", name, err)
		}
	}
}

// A facilitator that cannot be reached, or that rejects purser's key, fails for all keys.
func TestFacilitatorThatFailsForAll(t *testing.T) {
	t.Parallel()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	down := "http://" + listener.Addr().String()
	_ = listener.Close()
	for name, url := range map[string]string{
		"down":       down,
		"not let in": serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
	} {
		c := newClient(t, facilitator.Options{URL: url})
		x, _ := exchange(t)
		for _, x.KeyID = range []string{"a", "b", "c", "d", "e"} {
			if err := ready(c, "f"); err != nil {
				t.Errorf("%s: stopped early: %v", name, err)
			}
			_, _ = c.Verify(t.Context(), x)
		}
		if err := ready(c, "f"); err == nil || c.Failing() == nil {
			t.Errorf("%s: goes on: %v, %v", name, err, c.Failing())
		}
	}
}
