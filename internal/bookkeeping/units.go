package bookkeeping

import (
	"math/big"

	"github.com/purserpay/purser/money"
)

// signedUnits writes a sum in whole units with all decimals, such as -0.010000.
func signedUnits(n *big.Int, digits int) string {
	var abs big.Int
	a, _ := money.FromBig(abs.Abs(n)) // sums of amounts fit
	if n.Sign() < 0 {
		return "-" + fixed(a, digits)
	}
	return fixed(a, digits)
}
