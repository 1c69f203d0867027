package sandbox

import (
	"context"
	"fmt"
	"net/http"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// faucetGift is the amount that POST /faucet gives, in the token's smallest unit: 5 USDC of play
// money. Some ether for gas comes with it.
const faucetGift = 5_000_000

// decimals is the number of decimals of the token, as of USDC.
const decimals = 6

// maxFaucetForm bounds the body of POST /faucet, in bytes.
const maxFaucetForm = 4 << 10

// faucet adds two routes to next. POST /faucet with address=0x… gives play money to any caller. GET
// /ca.pem returns the root that signed the seller's certificate.
func faucet(fund func(ctx context.Context, to x402.Address, amount money.Amount) error, root []byte, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /ca.pem", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(root)
	})
	mux.HandleFunc("POST /faucet", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxFaucetForm)
		to, err := x402.ParseAddress(r.PostFormValue("address"))
		if err != nil {
			http.Error(w, "address: "+err.Error(), http.StatusBadRequest)
			return
		}
		amount := money.New(faucetGift)
		if err := fund(r.Context(), to, amount); err != nil {
			http.Error(w, "the chain did not take it", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%s has got %s USDC of play money, and some ether\n", to, amount.Format(decimals))
	})
	return mux
}
