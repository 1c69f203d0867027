package dashboard

import (
	"math/big"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// longRunway is the number of days from which on a runway is told in years.
const longRunway = 3 * 365

// runwayDays returns for how many days a balance lasts, if spending goes on as in some complete days.
// It is not known without net spending in them.
func runwayDays(have money.Amount, spent pay.Sum, days int) (n int, known bool) {
	net, minus := spent.Net()
	if minus || net.IsZero() || days < 1 {
		return 0, false
	}
	left := new(big.Int).Div(new(big.Int).Mul(have.Big(), big.NewInt(int64(days))), net.Big())
	const most = 1 << 30
	if !left.IsInt64() || left.Int64() > most {
		return most, true
	}
	return int(left.Int64()), true
}

// tooNew is the runway of a wallet that was made today.
const tooNew = "how long it lasts is known tomorrow"

// runwayText tells the runway in words.
func runwayText(have money.Amount, spent pay.Sum, days int) string {
	n, known := runwayDays(have, spent, days)
	switch {
	case have.IsZero():
		return "nothing left"
	case days < 1:
		return tooNew
	case !known:
		return "no spending in the last week"
	case n < 1:
		return "lasts less than a day"
	case n == 1:
		return "lasts about 1 day"
	case n > 100*365:
		return "lasts more than 100 years"
	case n > longRunway:
		return "lasts about " + count(n/365) + " years"
	}
	return "lasts about " + count(n) + " days"
}
