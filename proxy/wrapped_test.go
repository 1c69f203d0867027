package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
)

// wrapped starts a seller of version 1 that puts its terms into something else.
func wrapped(t *testing.T, form string) *proxytest.Seller {
	return proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.V1 = true
		s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusPaymentRequired)
			_, _ = fmt.Fprintf(rw, form, proxytest.V1Challenge(s.Price, "http://"+r.Host+r.URL.Path, "pay"))
		}
	})
}

// Terms in an object of a framework are paid. Where they stand elsewhere, the reason says so, and the client
// gets them as they came.
func TestWrappedTermsAtADoor(t *testing.T) {
	t.Parallel()
	for _, form := range []string{`{"detail":%s}`, `{"error":%s}`, `{"data":%s,"success":false}`, `{"paymentRequired":%s}`} {
		w, s := newWorld(t), wrapped(t, form)
		w.get(s.URL + "/x").Paid(t)
		s.Expect(1, 1, 1)
		a := w.get(s.URL+"/y", HeaderDryRun, "1") // declined, and with its terms
		member := strings.Split(form, `"`)[1]
		var body map[string]any
		if err := json.Unmarshal([]byte(a.Text), &body); err != nil || a.Header.Get(HeaderDeclined) != DeclinedDryRun || body["reason"] != DeclinedDryRun {
			t.Fatalf("%s: %v %s", form, err, a.Text)
		}
		if inner, _ := body[member].(map[string]any); inner["accepts"] == nil {
			t.Errorf("%s: the terms are gone: %s", form, a.Text)
		}
	}
	for form, where := range map[string]string{
		`{"error":{"details":%s}}`: "error.details", `{"payment":%s}`: "payment", `{"x402Version":1,"detail":%s}`: "detail",
	} {
		w, s := newWorld(t), wrapped(t, form)
		a := w.get(s.URL + "/x")
		if detail := a.Header.Get(HeaderDetail); a.Header.Get(HeaderDeclined) != DeclinedUnreadable || !strings.Contains(detail, "the terms are in "+where+" ") || !strings.Contains(a.Text, "accepts") {
			t.Errorf("%s: %q %s", form, detail, a.Text)
		}
		s.Expect(1, 0, 0)
	}
}
