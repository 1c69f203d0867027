package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// TestActing does what an operator does with a key and its money, by keyboard alone; see acting.mjs.
func TestActing(t *testing.T) {
	needBrowser(t)
	h := newHouse(t, "PURSER_LOW_BALANCE=2")
	var link struct{ URL string }
	if err := json.Unmarshal([]byte(h.purser.Must(h.t, "dashboard", "--json")), &link); err != nil {
		t.Fatal(err)
	}
	errands := h.errands()
	errands["balance"] = do(func(a struct{ Address string }) (any, error) {
		owner, err := x402.ParseAddress(a.Address)
		if err != nil {
			return nil, err
		}
		has, err := h.world.Balance(t.Context(), owner)
		return has.String(), err
	})
	errands["try"] = do(func(a struct{ Key string }) (any, error) { return h.reason(a.Key) })
	drive(t, "acting.mjs", errands, "BASE", h.url(""), "LINK", link.URL)
}

// reason asks for something at a price, and returns why it was not paid.
func (h *house) reason(key string) (string, error) {
	by := process.Client(&url.URL{Scheme: "http", Host: h.purser.Host(), User: url.UserPassword(key, "try")}, nil)
	got, err := process.Ask(h.t.Context(), by, http.MethodGet, h.world.SellerURL()+"/weather", "")
	if err == nil && got.Status != http.StatusPaymentRequired {
		err = fmt.Errorf("it was paid: %+v", got)
	}
	return got.Header.Get("Purser-Declined"), err
}
