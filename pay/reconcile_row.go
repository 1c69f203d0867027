package pay

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/x402"
)

// found makes the row of a payment that only the chain tells of. It counts as spent by the key on
// the day of its block. Its task and host are not known, so that budgets of hosts do not see it.
func (p *Payer) found(k Key, w Wallet, a x402.Asset, u UsedAuthorization) *Payment {
	at := u.Block.Time.UTC()
	row := &Payment{
		ID: idOf("payment", at, a, u), KeyID: k.ID, OrganizationID: k.OrganizationID,
		Terms:    Terms{Network: w.Network, Scheme: "exact", Asset: a.Address, PayTo: u.To, Amount: u.Value},
		Currency: a.Symbol, WalletID: w.ID, Created: at,
		Authorization: x402.Authorization{From: u.From, To: u.To, Value: u.Value, ValidBefore: uint64(at.Unix()), Nonce: u.Nonce},
		State:         Settled, Confirmed: true, Reconciled: true, Closed: at, Transaction: u.Transaction,
		Reason: "found on the chain after the books were restored from a backup", Answered: true,
		EventID: idOf("event", at, a, u), Check: at.Add(RetainPayload),
	}
	if !k.Operator {
		row.Reservations = []Reservation{{Counter: PlaceCounter(k.Owner(), at), Amount: x402.NewAmount(1), Release: ReleasePlace}}
	}
	row.Reservations = append(row.Reservations, budgeted(row, DailyCounter(k.ID, row.Currency, at)))
	return row
}

// Booking returns the writes beside the row of a payment that reconciling found. The store makes
// them in the same transaction.
func (p *Payment) Booking() Effects {
	e := p.event(Outcome{EventID: p.EventID, At: p.Closed})
	fx := Effects{Event: &e, Was: Open}
	for _, r := range p.Reservations {
		fx.Counters = append(fx.Counters, CounterChange{Counter: r.Counter, Amount: r.Amount, Add: true})
	}
	return fx
}

// idOf makes a UUIDv7 of a block's time that only this authorization has, so that booking it twice
// writes the same row.
func idOf(what string, at time.Time, a x402.Asset, u UsedAuthorization) string {
	h := sha256.New()
	h.Write([]byte("purser/reconciled/" + what + "\x00"))
	h.Write(a.Address[:])
	h.Write(u.From[:])
	h.Write(u.Nonce[:])
	id := uuid.UUID(h.Sum(nil)[:16])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(0, at.UnixMilli())))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// payerOf finds the wallet that a payment of an address is booked for: of those that existed then the
// oldest, which pays.
func payerOf(wallets []Wallet, at time.Time) Wallet {
	i := slices.IndexFunc(wallets, func(w Wallet) bool {
		return !w.Created.After(at) && (w.Deleted == nil || w.Deleted.After(at))
	})
	return wallets[max(i, 0)]
}
