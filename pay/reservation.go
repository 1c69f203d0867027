package pay

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
)

// Counter names a number in the store that limits or sums payments, such as
// "place/key/<id>/2026-11". Names carry their window, so old ones just stop mattering.
type Counter string

// Reservation records what a payment added to one counter. Exactly that is given back, once.
type Reservation struct {
	Counter Counter      `json:"Counter"`
	Amount  money.Amount `json:"Amount"`
	Release Release      `json:"Release"`
	// Released is set once the amount was given back.
	Released bool `json:"Released,omitempty"`
}

// Release says at which events of a payment's life a reservation is given back.
type Release uint8

// The events. A doubted payment has passed AtRefused, also when it is void. AtVoid follows by the
// chain's word, or, without an RPC, AtRefusedExpired.
const (
	AtSettled Release = 1 << iota
	AtVoid
	AtRefused
	AtRefusedExpired
	AtUnresolved

	// CountsMoved names no event: a settlement that gives the reservation back adds the amount to the
	// counter [Reservation.Moved].
	CountsMoved

	// AtEvidence follows once the chain shows the transfer, or that none can come any more: see
	// [Outcome.Evident].
	AtEvidence
)

// Which reservations a payment makes (docs/design/payments.md and surfaces.md).
const (
	// ReleasePlace is for places in the monthly count.
	ReleasePlace = AtVoid | AtRefused | AtUnresolved
	// ReleaseBudget is for money budgets.
	ReleaseBudget = AtVoid | AtRefusedExpired
	// ReleaseHold is for a wallet's open amount where no RPC tells of it: the payment is taken at its word.
	ReleaseHold = AtSettled | AtVoid | AtRefusedExpired | AtUnresolved
	// ReleaseWatchedHold is for one of which an RPC tells: only once the chain shows what became of the
	// authorization does the chain's balance have the amount for good.
	ReleaseWatchedHold = AtVoid | AtRefusedExpired | AtEvidence | CountsMoved
	// ReleasePending is for the sums that /v1/spend shows as pending.
	ReleasePending = AtSettled | AtVoid | AtRefused
	// ReleaseNever is for rates: an attempt counts whatever becomes of it.
	ReleaseNever Release = 0
)

// Limit is a reservation to make, with the most its counter may reach.
type Limit struct {
	Reservation
	// Max is the inclusive bound of the counter after the reservation; nil: none.
	Max *money.Amount
	// Since is the value of the counter [Reservation.Moved] from before Max was read. What has moved
	// since then is taken off Max, because Max may not know of it.
	Since money.Amount
	// Refusal is the caller's error when the bound would be passed.
	Refusal error
}

// CounterChange is one change that a store applies to a counter together with the row.
type CounterChange struct {
	Counter Counter
	Amount  money.Amount
	Add     bool // false: subtract, stopping at zero
	Set     bool // neither: the amount is the counter's new value
}

// Apply returns the counter's value after the change. It fails if that overflows.
func (c CounterChange) Apply(have money.Amount) (money.Amount, error) {
	switch {
	case c.Set:
		return c.Amount, nil
	case c.Add:
		sum, overflow := have.Add(c.Amount)
		if overflow {
			return have, fmt.Errorf("counter %s: overflow", c.Counter)
		}
		return sum, nil
	}
	less, under := have.Sub(c.Amount)
	if under {
		return money.Amount{}, nil
	}
	return less, nil
}

// release gives back what the event gives back and is not given back yet.
func (p *Payment) release(at Release) []CounterChange {
	var out []CounterChange
	for i := range p.Reservations {
		r := &p.Reservations[i]
		if r.Release&at == 0 || r.Released {
			continue
		}
		r.Released = true
		out = append(out, CounterChange{Counter: r.Counter, Amount: r.Amount})
	}
	return out
}

// retake adds again what the event does not give back: a late settlement counts, even past a limit.
func (p *Payment) retake(at Release) []CounterChange {
	var out []CounterChange
	for i := range p.Reservations {
		r := &p.Reservations[i]
		if r.Release&at != 0 || !r.Released {
			continue
		}
		r.Released = false
		out = append(out, CounterChange{Counter: r.Counter, Amount: r.Amount, Add: true})
	}
	return out
}

// recharge changes what the budgets hold to what has moved for good.
func (p *Payment) recharge(moved money.Amount) []CounterChange {
	var out []CounterChange
	for i := range p.Reservations {
		r := &p.Reservations[i]
		if r.Release != ReleaseBudget || r.Released {
			continue
		}
		change := CounterChange{Counter: r.Counter}
		if more, less := moved.Sub(r.Amount); !less {
			change.Amount, change.Add = more, true
		} else {
			change.Amount, _ = r.Amount.Sub(moved)
		}
		if r.Amount = moved; !change.Amount.IsZero() {
			out = append(out, change)
		}
	}
	return out
}

// window returns the beginning of the month, day, hour or minute that a counter counts, if it counts one.
func (c Counter) window() (begin time.Time, ok bool) {
	for _, part := range slices.Backward(strings.Split(string(c), "/")) {
		for _, layout := range []string{time.DateOnly, "2006-01", "2006-01-02T15:04", hourLayout} {
			if begin, err := time.Parse(layout, part); err == nil {
				return begin, true
			}
		}
	}
	return time.Time{}, false
}

// keyCounters lists how the names of counters begin that go on with the id of a key.
func keyCounters() [15]string {
	return [...]string{"day/", "place/key/", "pending/n/", "pending/sum/", failedPrefix + "minute/", failedPrefix + "day/", failedPrefix + "begun/", "minute/", pricePrefix, "site-day/", "task-day/", "hour/", "site-hour/", "task-hour/", totalPrefix}
}

// Key returns the id of the key whose counter it is: only its payments change it, and those of its children; "": other
// keys may share it. Complete tells
// that the id has ended, so that all counters whose names begin with c are of that key.
func (c Counter) Key() (id string, complete bool) {
	for _, kind := range keyCounters() {
		if rest, is := strings.CutPrefix(string(c), kind); is {
			id, _, complete = strings.Cut(rest, "/")
			return id, complete
		}
	}
	return "", false
}

// PlaceCounter counts an owner's payments in a calendar month (UTC).
func PlaceCounter(owner string, at time.Time) Counter {
	return Counter("place/" + owner + "/" + at.UTC().Format("2006-01"))
}

// PendingCounters name the number and the sum of a key's open payments.
func PendingCounters(keyID string) (count, amount Counter) {
	return Counter("pending/n/" + keyID), Counter("pending/sum/" + keyID)
}

// holdPrefix begins the names of the counters of wallets' open amounts.
const holdPrefix = "hold/"

// Reserves reports whether a part of the wallet's balance is kept for the payment: its authorization
// may still move the money, or it is not known yet that it has not.
func (p *Payment) Reserves() bool {
	return slices.ContainsFunc(p.Reservations, func(r Reservation) bool {
		return !r.Released && strings.HasPrefix(string(r.Counter), holdPrefix)
	})
}

// holdCounter sums the open payments of a wallet in one asset.
func holdCounter(walletID string, asset string) Counter {
	return Counter(holdPrefix + walletID + "/" + asset)
}

// hold reserves an amount of a wallet. With an RPC of the network it is held until the chain's word.
func (p *Payer) hold(c choice, amount money.Amount) Reservation {
	r := Reservation{Counter: holdCounter(c.wallet.ID, c.asset.Symbol), Amount: amount, Release: ReleaseHold}
	if p.watches(c.network.Name) {
		r.Release = ReleaseWatchedHold
	}
	return r
}

// movedPrefix begins the names of the counters of what purser has moved out of wallets. They only
// grow: a balance is compared with what has moved since it was read, on whichever node.
const movedPrefix = "moved/"

func movedCounter(walletID string, asset string) Counter {
	return Counter(movedPrefix + walletID + "/" + asset)
}

// Moved names the counter that grows by the amount when a settled payment gives it back; "": none does.
func (r Reservation) Moved() Counter {
	if r.Release&CountsMoved == 0 {
		return ""
	}
	return Counter(movedPrefix + strings.TrimPrefix(string(r.Counter), holdPrefix))
}

// Guard names the counter whose lock guards this one, too. What a wallet has moved grows only when
// its open amount shrinks, so one lock does for both.
func (c Counter) Guard() Counter {
	if wallet, moved := strings.CutPrefix(string(c), movedPrefix); moved {
		return Counter(holdPrefix + wallet)
	}
	return c
}

// move counts what has left the wallet, with the events at which it gives back its hold.
func (p *Payment) move(at Release) []CounterChange {
	var out []CounterChange
	for _, r := range p.Reservations {
		if moved := r.Moved(); moved != "" && r.Release&at != 0 {
			out = append(out, CounterChange{Counter: moved, Amount: r.Amount, Add: true})
		}
	}
	return out
}

// evident gives back what the payment holds until evidence. If it is settled, the amount counts as
// moved: also one that turns out not to have moved, because a balance that is read later has it anyway.
func (p *Payment) evident() []CounterChange {
	var out []CounterChange
	if p.State == Settled && p.Claimed() {
		out = p.move(AtEvidence)
	}
	return append(p.release(AtEvidence), out...)
}

// Claimed reports whether the payment waits for the chain's word: what it says of the money is the word
// of a seller, a facilitator or a caller.
func (p *Payment) Claimed() bool {
	return p.State != Void && slices.ContainsFunc(p.Reservations, func(r Reservation) bool { return r.Release&AtEvidence != 0 && !r.Released })
}
