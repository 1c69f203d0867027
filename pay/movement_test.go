package pay_test

import (
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// No URL that an agent can name makes a payment to a seller look like a withdrawal.
func TestIsWithdrawal(t *testing.T) {
	t.Parallel()
	if !pay.IsWithdrawal(pay.WithdrawalHost, pay.WithdrawalURL+"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed") {
		t.Error("a withdrawal is none")
	}
	for _, url := range []string{
		"https://withdrawal/", "http://withdrawal/withdraw:0x5a", "withdraw://withdrawal/", "WITHDRAW://withdrawal/", "withdraw:0x5a", "withdraw:/withdrawal/",
		"withdraw:withdrawal", "withdraw:x@withdrawal", "https://withdraw:x@withdrawal/", "withdraw:///withdrawal",
	} {
		host := policy.SiteOf(url).String()
		if pay.IsWithdrawal(host, url) {
			t.Errorf("%s at %s counts as a withdrawal", url, host)
		}
		e := pay.SpendEvent{Host: host, RequestURL: url}
		if e.SumHost() == pay.WithdrawalHost {
			t.Errorf("%s is summed up with withdrawals", url)
		}
	}
}
