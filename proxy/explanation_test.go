package proxy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// told is the body of a 402 that purser explains.
type told struct {
	Error, Reason, Detail, Price, Limit, Left, Resets string
	Do                                                struct{ Developer, Operator string }
}

func readTold(t *testing.T, a proxytest.Answer) (out told) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.Text), &out); err != nil || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v: %q %q", err, a.Header.Get("Content-Type"), a.Text)
	}
	if a.ContentLength != int64(len(a.Text)) {
		t.Errorf("the length is %d of %d", a.ContentLength, len(a.Text))
	}
	return out
}

// An agent learns from the answer alone which limit it has met, what is left and when that ends.
func TestDeclineTellsWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy = policy.Policy{DailyBudget: policy.CapOf(money.New(60_000))} })
	s := proxytest.NewSeller(t)
	for range 6 {
		w.get(s.URL + "/x").Paid(t)
	}
	a := w.get(s.URL+"/x", "Accept", "application/json")
	a.Declined(t, "daily-budget", true)
	const detail = "0.01 USDC would pass the daily budget of 0.06 USDC; 0.00 left until 00:00 UTC"
	if got := a.Header.Get("Purser-Declined-Detail"); got != detail+". Developer: Repeat the request on the next day (UTC); Retry-After says when. Operator: Wait, or purser limits KEY --daily-budget ..." {
		t.Errorf("the header says %q", got)
	}
	got := readTold(t, a)
	if do := got.Do; do.Developer != "Repeat the request on the next day (UTC); Retry-After says when." || do.Operator != "Wait, or purser limits KEY --daily-budget ..." {
		t.Errorf("what to do: %+v", do)
	}
	resets, err := time.Parse(time.RFC3339, got.Resets)
	if err != nil || time.Until(resets) > 24*time.Hour || resets.Hour() != 0 {
		t.Errorf("resets: %v, %v", resets, err)
	}
	want := told{
		Error: "purser did not pay: " + detail, Reason: "daily-budget", Detail: detail,
		Price: "0.01 USDC", Limit: "0.06 USDC", Left: "0.00 USDC", Resets: got.Resets, Do: got.Do,
	}
	if got != want {
		t.Errorf("the body says %+v", got)
	}
	after, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if left := time.Until(resets).Seconds(); err != nil || float64(after) < left-1 || float64(after) > left+60 {
		t.Errorf("Retry-After is %q, %v s before the reset", a.Header.Get("Retry-After"), left)
	}
}

// A challenge stays where it was, and a page for people stays as well.
func TestDeclinedBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy = policy.Policy{MaxPayment: policy.CapOf(money.New(1))} })
	const page, asks = "<h1>pay</h1>", "application/json, text/plain, */*"
	for name, c := range map[string]struct {
		v1             bool
		kind, body     string // of the seller's answer
		accept, method string
		ours           bool
		keeps          string
	}{
		"empty":                               {ours: true},
		"an empty object":                     {kind: "application/json", body: "{}", ours: true},
		"an object":                           {kind: "application/problem+json", body: `{"error":"pay","hint":[1]}`, ours: true, keeps: `"hint":[1]`},
		"a v1 challenge":                      {v1: true, ours: true, keeps: `"accepts":[`},
		"a page":                              {kind: "text/html", body: page, accept: "*/*"},
		"a page for a client of JSON":         {kind: "text/html", body: page, accept: asks, ours: true},
		"an array":                            {kind: "application/json", body: "[1]", accept: asks},
		"an object that contradicts itself":   {kind: "application/json", body: `{"a":1,"a":2}`},
		"an object that is cut":               {kind: "application/json", body: `{"a":1`},
		"an object above what a client reads": {kind: "application/json", body: `{"a":"` + strings.Repeat("x", x402.MaxChallengeBytes) + `"}`},
		"HEAD":                                {method: "HEAD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
				s.V1 = c.v1
				if !c.v1 {
					s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
						if c.kind != "" {
							rw.Header().Set("Content-Type", c.kind)
						}
						rw.Header().Set("Etag", `"x"`)
						rw.Header().Set(x402.HeaderRequired, proxytest.V2Challenge(s.Price, "http://"+r.Host+r.URL.Path, ""))
						rw.WriteHeader(http.StatusPaymentRequired)
						_, _ = io.WriteString(rw, c.body)
					}
				}
			})
			r := proxytest.Request(t, cmp.Or(c.method, "GET"), s.URL+"/x", nil)
			if c.accept != "" {
				r.Header.Set("Accept", c.accept)
			}
			a := w.send(w.door, w.Key, r)
			if c.method != "" {
				if a.Declined(t, DeclinedUnasked, true); a.Text != "" || a.Header.Get("Etag") == "" {
					t.Errorf("the answer to %s: %v %q", c.method, a.Header, a.Text)
				}
				return
			}
			a.Declined(t, "per-payment", true)
			if !strings.HasPrefix(a.Header.Get("Purser-Declined-Detail"), "0.01 USDC is above the limit of 0.000001 USDC for one payment. Developer: ") {
				t.Errorf("the header says %q", a.Header.Get("Purser-Declined-Detail"))
			}
			if !c.ours {
				if a.Text != c.body || !c.v1 && a.Header.Get("Etag") == "" {
					t.Errorf("the seller's body became %.200q", a.Text)
				}
				return
			}
			got := readTold(t, a)
			if got.Reason != "per-payment" || got.Price != "0.01 USDC" || got.Limit != "0.000001 USDC" || got.Left+got.Resets != "" {
				t.Errorf("the body says %+v", got)
			}
			if !strings.Contains(a.Text, c.keeps) || a.Header.Get("Etag") != "" {
				t.Errorf("%v %s", a.Header, a.Text)
			}
		})
	}
}

// A seller's text cannot become a header of its own.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain \"text\"": "plain \"text\"", "a\r\nSet-Cookie: b": "a  Set-Cookie: b", "naïve": "na?ve", strings.Repeat("x", 600): strings.Repeat("x", 500),
	} {
		if got := printable(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}

// The SDKs of model providers get the error in the form that they show.
func TestErrorForSDKs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy = policy.Policy{MaxPayment: policy.CapOf(money.New(1))} })
	for _, v1 := range []bool{false, true} {
		s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.V1 = v1 })
		a := w.get(s.URL+"/x", "X-Stainless-Lang", "python", "Accept", "application/json")
		a.Declined(t, "per-payment", true)
		var got struct {
			Error                 struct{ Message, Type, Code string }
			Reason, Detail, Limit string
			Do                    struct{ Developer string }
		}
		if err := json.Unmarshal([]byte(a.Text), &got); err != nil {
			t.Fatal(err)
		}
		if got.Do.Developer == "" || got.Error.Message != "purser did not pay: "+got.Detail+". "+got.Do.Developer || got.Error.Code != "per-payment" || got.Reason != "per-payment" ||
			got.Limit != "0.000001 USDC" || got.Error.Type != "purser" {
			t.Errorf("%s", a.Text)
		}
	}
	for _, body := range []string{`[]`, `{}`, `{"error":1}`, `{"error":{"message":"x"}}`} {
		if got := forSDK(http.Header{headerSDK: {"js"}}, []byte(body)); string(got) != body {
			t.Errorf("%s became %s", body, got)
		}
	}
}

// A key whose calls have had the RPC asked too often gets the seller's 402, and is told when to come again.
func TestDeclineOfAKeyThatAsksTooMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := fmt.Errorf("deciding: %w", &pay.QuestionsError{RetryAfter: 7 * time.Second})
	reason, left := declined(err)
	if reason != DeclinedOverloaded || left != nil {
		t.Errorf("reason %q, %v", reason, left)
	}
	req := httptest.NewRequest(http.MethodGet, "https://api.example.com/", nil)
	req = req.WithContext(WithCall(req.Context(), &Call{}))
	seller := &http.Response{StatusCode: http.StatusPaymentRequired, Header: http.Header{}, Body: http.NoBody, Request: req}
	resp, result, err := w.door.refuse(req, seller, err)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBody(resp)
	if resp.StatusCode != http.StatusPaymentRequired || result != ResultDeclined || resp.Header.Get("Retry-After") != "7" ||
		!strings.Contains(resp.Header.Get("Purser-Declined-Detail"), "RPC") {
		t.Errorf("%d %s %v", resp.StatusCode, result, resp.Header)
	}
}
