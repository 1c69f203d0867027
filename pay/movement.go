package pay

import "strings"

// The books have payments to sellers, which are spend, and movements, by which an operator moves the money of a
// wallet. Withdrawals are the movements that have a payment. A movement is listed and stated, and never spend: it
// is in no budget and in no sum of what was spent. An allowance for Permit2 and a cancellation move no token. Their
// gas is in the network's coin, and no book has it. A payment that was canceled has no spend event.

const (
	// WithdrawalURL begins the URL of a withdrawal in the books. The address that got the money follows.
	WithdrawalURL = "withdraw:"
	// WithdrawalHost stands for the host of a seller in the books of a withdrawal. In sums of hosts it names the
	// withdrawals, and nothing else: see [SpendEvent.SumHost].
	WithdrawalHost = "withdrawal"
)

// IsWithdrawal reports whether a payment or spend event with this host and URL is a withdrawal. No payment to a
// seller is: its host is that of its URL, and the URL of a withdrawal has none.
func IsWithdrawal(host, url string) bool {
	return host == WithdrawalHost && strings.HasPrefix(url, WithdrawalURL) && !strings.HasPrefix(url, WithdrawalURL+"//")
}

// Withdraws reports whether the payment is a withdrawal: its payee is no seller.
func (p *Payment) Withdraws() bool { return IsWithdrawal(p.Host, p.RequestURL) }

// Withdraws reports whether the event is that of a withdrawal.
func (e *SpendEvent) Withdraws() bool { return IsWithdrawal(e.Host, e.RequestURL) }

// SumHost returns the name under which sums of hosts have the event: that of its host as [SumName] has it, or
// [WithdrawalHost]. A seller of that name has [RestName].
func (e *SpendEvent) SumHost() string {
	if e.Host == WithdrawalHost && !e.Withdraws() {
		return RestName
	}
	return SumName(e.Host)
}
