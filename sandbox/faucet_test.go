package sandbox

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

func TestFaucet(t *testing.T) {
	t.Parallel()
	var given []string
	var broken error
	h := faucet(func(_ context.Context, to x402.Address, amount money.Amount) error {
		given = append(given, to.String()+" "+amount.String())
		return broken
	}, []byte("root"), http.NotFoundHandler())
	ask := func(method, path, form string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const somebody = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
	if code, text := ask("POST", "/faucet", "address="+somebody); code != 200 || !strings.Contains(text, "5 USDC of play money") || len(given) != 1 || given[0] != somebody+" 5000000" {
		t.Errorf("%d %s, %v", code, text, given)
	}
	if code, text := ask("GET", "/ca.pem", ""); code != 200 || text != "root" {
		t.Errorf("%d %q", code, text)
	}
	for _, form := range []string{"", "address=0x12", "address=" + strings.Repeat("0", maxFaucetForm)} {
		if code, _ := ask("POST", "/faucet", form); code != 400 || len(given) != 1 {
			t.Errorf("%.20q: %d, %v", form, code, given)
		}
	}
	if code, _ := ask("GET", "/faucet", ""); code == 200 || len(given) != 1 {
		t.Errorf("GET: %d", code)
	}
	if code, _ := ask("GET", "/weather", ""); code != 404 {
		t.Errorf("what is not the faucet's goes on: %d", code)
	}
	broken = errors.New("s3cret")
	if code, text := ask("POST", "/faucet", "address="+somebody); code != 503 || strings.Contains(text, "s3cret") {
		t.Errorf("%d %s", code, text)
	}
}
