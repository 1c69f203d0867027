package proxytest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// ownProblem is the body of an answer of purser's own.
type ownProblem struct {
	Error, Reason string
	SellerSaid    string
	Payment       *struct {
		ID          string
		State       pay.State
		ValidBefore string
	}
}

// Answer is a response read to its end.
type Answer struct {
	*http.Response
	Text string
}

// Do sends a request and reads the answer to its end.
func Do(c *http.Client, r *http.Request) (Answer, error) {
	resp, err := c.Do(r) //nolint:gosec // the URL is the test's
	return Read(resp, err)
}

// Read reads a response to its end.
func Read(resp *http.Response, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return Answer{resp, string(b)}, err
}

// Outcome holds the answer to a request that Start sent, or why there is none.
type Outcome struct {
	Answer
	Err error
}

// Start sends a request. Its outcome comes later.
func Start(c *http.Client, r *http.Request) <-chan Outcome {
	outcome := make(chan Outcome, 1)
	go func() {
		a, err := Do(c, r)
		outcome <- Outcome{a, err}
	}()
	return outcome
}

// Request makes a request, with pairs of header names and values.
func Request(t *testing.T, method, rawURL string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, rawURL, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// Paid checks that an answer is a paid 200 and returns the payment's id.
func (a Answer) Paid(t *testing.T) string {
	t.Helper()
	if a.StatusCode != http.StatusOK || a.Header.Get("Purser-Payment") == "" {
		t.Fatalf("not a paid answer: %d %v %s", a.StatusCode, a.Header, a.Text)
	}
	return a.Header.Get("Purser-Payment")
}

// Declined checks that an answer is a 402 for this reason, and whether a client could
// still find a challenge in it.
func (a Answer) Declined(t *testing.T, reason string, challenge bool) {
	t.Helper()
	if a.StatusCode != http.StatusPaymentRequired || a.Header.Get("Purser-Declined") != reason {
		t.Fatalf("got %d %q, want a 402 declined for %q: %s", a.StatusCode, a.Header.Get("Purser-Declined"), reason, a.Text)
	}
	if _, found, _ := x402.FromResponse(a.Header, []byte(a.Text)); found != challenge {
		t.Fatalf("challenge in the 402: %t, want %t: %v %s", found, challenge, a.Header, a.Text)
	}
}

// Problem reads an answer of purser's own.
func (a Answer) Problem(t *testing.T) ownProblem {
	t.Helper()
	var p ownProblem
	if err := json.Unmarshal([]byte(a.Text), &p); err != nil || p.Error == "" || p.Reason == "" {
		t.Fatalf("not an answer of ours: %d %q (%v)", a.StatusCode, a.Text, err)
	}
	return p
}

// Eventually waits until something holds, and fails the test after 30 s.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// InTime asks until the seller's answer is in time. On a busy machine, one that comes at once may be late for a short
// bound. That is harmless before a payment: asking again is the same. paid has it ask again after one, too.
func InTime(t *testing.T, paid bool, ask func() Answer) Answer {
	t.Helper()
	for range 100 {
		a := ask()
		if a.StatusCode != http.StatusGatewayTimeout || a.Problem(t).Payment != nil && !paid {
			return a
		}
	}
	t.Fatal("no answer is in time")
	return Answer{}
}

// Short checks that an answer is a 503 of purser's own, in which no client finds anything to pay.
func (a Answer) Short(t *testing.T, reason string) {
	t.Helper()
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Purser-Error") != reason || a.Header.Get("Retry-After") == "" {
		t.Fatalf("got %d %v, want a 503 for %q: %s", a.StatusCode, a.Header, reason, a.Text)
	}
	if _, found, _ := x402.FromResponse(a.Header, []byte(a.Text)); found || a.Problem(t).Reason != reason {
		t.Fatalf("%v %s", a.Header, a.Text)
	}
}
