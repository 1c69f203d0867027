package caddymodule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// planned is a book site whose plans allow one payment a month.
func planned(t *testing.T, more string) (s *site, socket string) {
	t.Helper()
	s, socket = bookSite(t)
	s.app += "\n\t\tplan free {\n\t\t\tpayments 1\n\t\t\tkeys 1\n\t\t\twallets 1\n\t\t}\n\t\t" + more
	mustLoad(t, replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600"))
	return s, socket
}

// Without plans nothing counts payments, keys or wallets against one.
func TestPlansOff(t *testing.T) {
	for _, how := range []string{"option", "variable"} {
		more := "plans off"
		if how == "variable" {
			more = ""
			t.Setenv("PURSER_PLANS", "off")
		}
		t.Setenv("PURSER_INTERNAL_SECRET", "internal")
		s, socket := planned(t, more)
		plain := newKey(t, s.url())
		for n := range 3 {
			mustCall(t, 200, "POST", s.url()+"/v1/pay", plain, payBody(1000, fmt.Sprintf("https://api.example.com/%d", n)))
		}
		// An organization's second key, with its third wallet.
		for range 2 {
			r := newRequest(t, "POST", s.url()+"/api-keys", strings.NewReader(`{"organization_id":"org"}`), "X-Internal-Secret", "internal")
			resp, text := do(t, r)
			if resp.StatusCode != 201 {
				t.Fatalf("%d %s", resp.StatusCode, text)
			}
			key := decode[map[string]string](t, text)["key"]
			for range 2 {
				mustCall(t, 201, "POST", s.url()+"/wallets", key, `{}`)
			}
			for n := range 2 {
				mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(1000, fmt.Sprintf("https://api.example.com/%d", n)))
			}
		}
		if k := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys[0]; k.Quota != nil {
			t.Errorf("%+v", k.Quota)
		}
		if text := told(t, socket, "status"); strings.Contains(text, "quota") {
			t.Errorf("%s", text)
		}
		if text := told(t, socket, "organizations"); strings.Contains(text, " of ") {
			t.Errorf("%s", text)
		}
	}
}
