package pay

import (
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// SpendEvent is the record of money that moved. It never changes; a correcting one may follow. The event of a
// withdrawal is no spend: see [SpendEvent.Withdraws].
type SpendEvent struct {
	ID         string       `json:"ID"` // UUIDv7 of Created: events sort by time
	KeyID      string       `json:"KeyID"`
	PaymentID  string       `json:"PaymentID"`
	Amount     money.Amount `json:"Amount"`
	Currency   string       `json:"Currency"`
	RequestURL string       `json:"RequestURL"`
	Task       string       `json:"Task,omitempty"`
	Host       string       `json:"Host,omitempty"`
	Created    time.Time    `json:"Created"` // when the payment was recorded as settled
	// Corrects names the event that this one takes back; its amount counts negative.
	Corrects string `json:"Corrects,omitempty"`
}

// SpendQuery selects spend events of one key, without those of withdrawals.
type SpendQuery struct {
	Task   string // only events with this label; "" is all of them
	Before string // id of the last event of the page before; "" for the first
	Limit  int
}

// SignedAmount returns the amount as the API shows it: negative for a correction.
func (e SpendEvent) SignedAmount() string {
	if e.Corrects != "" {
		return "-" + e.Amount.String()
	}
	return e.Amount.String()
}

// eventIDs names spend events after the time of their Created, so that a listing by date is a
// seek. Those of one time are in the order in which they were named.
type eventIDs struct {
	mu   sync.Mutex
	last int64 // milliseconds and 12 bits that count within them
}

// maxAhead bounds how far names may run ahead of a clock that was put back, to stay in order.
const maxAhead = 1000 << 12 // a second

func (n *eventIDs) at(t time.Time) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	const millisecond = int64(time.Millisecond)
	ns := max(0, t.UnixNano())
	now := ns/millisecond<<12 | ns%millisecond>>8
	n.mu.Lock()
	if ahead := n.last - now; ahead >= 0 && ahead < maxAhead {
		now = n.last + 1
	}
	n.last = now
	n.mu.Unlock()
	setTime(&id, now>>12)
	id[6], id[7] = 0x70|byte(now>>8&0x0f), byte(now)
	return id.String(), nil
}

// setTime writes the milliseconds since 1970 of a UUIDv7.
func setTime(id *uuid.UUID, ms int64) {
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
}

// OrganizationSpendQuery selects spend events of an organization.
type OrganizationSpendQuery struct {
	KeyID string // one key of the organization; "" is all of them
	Host  string // as recorded, see [SpendEvent]; "" is any
	Tool  string // as [policy.ToolOf] writes it, with the Host that it is at; "" is any
	Task  string // "" is any
	// Payee is the address that was paid; nil is any.
	Payee *x402.Address
	// From and To are UTC days, both included, by the events' Created. Zero is no bound.
	From, To time.Time
	Before   string // SpendPage.Next of the page before; "" for the first
	Limit    int    // at most 500; below 1: 50
}

// Wants reports whether the query selects an event by host, tool, task and day. The payee is its payment's.
func (q OrganizationSpendQuery) Wants(e *SpendEvent) bool {
	day := DayOf(e.Created)
	return (q.Host == "" || e.Host == q.Host) && (q.Tool == "" || policy.ToolOf(e.RequestURL) == q.Tool) && (q.Task == "" || e.Task == q.Task) &&
		(q.From.IsZero() || !day.Before(DayOf(q.From))) && (q.To.IsZero() || !day.After(DayOf(q.To)))
}

// SpendPage is a part of a listing, newest first.
type SpendPage struct {
	Entries []SpendEntry
	// Next is the cursor of the following page; "" at the end. A page with few entries, or none,
	// may have one, when few of many events match.
	Next string
}

// SpendEntry is a spend event with what its payment tells.
type SpendEntry struct {
	SpendEvent
	Means
	Transaction string // 0x + 64 hex, "" when unknown
	Network     string // our name
	Settlement  string // "payer" or "seller"; "" for what reconciling found
	Flags       []string
	WalletID    string       // Wallet.ID of the wallet that paid
	From        x402.Address // the address of the wallet
	PayTo       x402.Address // the address that got the money
	Asset       x402.Address // the token's contract
	Door        policy.Door
}

// Entry returns an event of the payment with what the payment tells.
func (p *Payment) Entry(e SpendEvent) SpendEntry {
	return SpendEntry{
		SpendEvent: e, Means: p.Means(), Transaction: p.Transaction, Network: p.Terms.Network, Settlement: string(p.Terms.Settlement), Flags: p.Flags(),
		WalletID: p.WalletID, From: p.Authorization.From, PayTo: p.Terms.PayTo, Asset: p.Terms.Asset, Door: p.Door,
	}
}

// RecordedPlace converts an operator's input, a host, a URL or a tool such as mcp://api.example.com/tool/get_weather, to
// the form of filters. tool is "" for what names none.
func RecordedPlace(typed string) (host, tool string) {
	return RecordedHost(typed), policy.ToolOf(strings.TrimSpace(typed))
}

// RecordedHost converts an operator's input, a host or a URL, to the form of payments and events.
func RecordedHost(typed string) string {
	typed = strings.TrimSpace(typed)
	if s := policy.SiteOf(typed); s.Name != "" {
		return s.String()
	}
	return strings.TrimSuffix(strings.ToLower(typed), ".")
}
