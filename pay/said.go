package pay

import (
	"cmp"
	"strings"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/x402"
)

// saidIn returns what a receipt says of a failure.
func saidIn(r x402.Receipt) string {
	switch reason, message := words.OfSeller(r.ErrorReason), words.OfSeller(r.ErrorMessage); {
	case r.Success:
		return ""
	case reason == "" || message == "" || reason == message:
		return cmp.Or(reason, message)
	default:
		return reason + ": " + message
	}
}

// noFunds are the words by which sellers and facilitators refuse a payload of an empty wallet, as x402
// has them and in plain English.
var noFunds = []string{"insufficient funds", "insufficient balance"}

// EmptyWallet says which wallet to fund, if the seller refused its payload for want of money; else it
// is "". Without an RPC, the seller is the first to notice.
func (p *Payment) EmptyWallet() string {
	said := strings.ReplaceAll(strings.ToLower(p.SellerSaid), "_", " ")
	for _, words := range noFunds {
		if p.State != Settled && strings.Contains(said, words) && !strings.Contains(said, "gas") { // which the seller pays
			return "fund the wallet " + p.Authorization.From.String() + ": it seems to be empty"
		}
	}
	return ""
}
