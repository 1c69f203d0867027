package pay

import "time"

// WalletDay holds what left a wallet on a UTC day, by all keys that draw from it, by the time at which
// purser recorded it.
type WalletDay struct {
	Day       time.Time // its beginning
	Spent     Sum       // by payments to sellers
	Withdrawn Sum       // by withdrawals
}

// Add adds what else left the wallet on the day.
func (d *WalletDay) Add(o WalletDay) {
	d.Spent.Add(o.Spent)
	d.Withdrawn.Add(o.Withdrawn)
}

// Event adds a spend event of a payment from the wallet.
func (d *WalletDay) Event(p *Payment, e *SpendEvent) {
	if p.Withdraws() {
		d.Withdrawn.Event(e)
		return
	}
	d.Spent.Event(e)
}
