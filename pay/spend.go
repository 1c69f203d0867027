package pay

import (
	"time"

	"github.com/purserpay/purser/x402"
)

// SpendEvent is the record of money that moved (SPEC §2). Events are never changed; a
// claimed settlement that the chain disproves is followed by a correcting event.
type SpendEvent struct {
	ID         string // UUIDv7: events of one key sort by time
	KeyID      string
	PaymentID  string
	Amount     x402.Amount
	Currency   string
	RequestURL string
	Task       string    `json:",omitempty"`
	Host       string    `json:",omitempty"`
	Created    time.Time // when the payment was recorded as settled
	// Corrects names the event that this one takes back; its amount counts negative.
	Corrects string `json:",omitempty"`
}

// SpendQuery selects spend events of one key.
type SpendQuery struct {
	Task   string // only events with this label; "" is all of them
	Before string // id of the last event of the page before; "" for the first
	Limit  int
}

// SignedAmount is the amount as the API shows it: negative for a correction.
func (e SpendEvent) SignedAmount() string {
	if e.Corrects != "" {
		return "-" + e.Amount.String()
	}
	return e.Amount.String()
}
