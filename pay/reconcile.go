package pay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// A store that was restored from a backup does not know what was paid afterwards, and a database that has
// lost commits does not know what they were. Until the chain has told, the store is in reconcile mode: purser pays nothing new, and sends nothing again that the backup left
// open, because its outcome may be missing.

// RestoreReader reads what is to be reconciled.
type RestoreReader interface {
	// Restored says what is to be reconciled. Nil: nothing, and payments may begin.
	Restored(ctx context.Context) (*Restore, error)
}

// Reconciler is the part of a store that remembers the backup that it was restored from.
type Reconciler interface {
	RestoreReader

	// Reconcile books payments that the chain told of, each settled and with an EventID, and how
	// far a network was read, in one step. It returns those that the store did not have, by From
	// and Nonce. ErrNotReconciling.
	Reconcile(ctx context.Context, s ReconcileStep) ([]*Payment, error)
	// AcceptRisk records that an operator does not want to wait for the chain: ErrNotReconciling.
	AcceptRisk(ctx context.Context, a Acceptance) error
	// EndReconciling lets payments begin again: ErrNotReconciling.
	EndReconciling(ctx context.Context, at time.Time) error
}

// ErrNotReconciling: the store has nothing to reconcile.
var ErrNotReconciling error = &sentinel{CodeNotReconciling, "the store is not restored from a backup, or it is reconciled"}

// Restore describes the backups that a store was restored from and is not reconciled with.
type Restore struct {
	// Taken is the time of the oldest backup, Block the chain's safe block then, or nil. Missing
	// payments moved money in a later block.
	Taken time.Time    `json:"taken"`
	Block *MarkedBlock `json:"block,omitempty"`
	// At holds when the newest of them was opened first.
	At time.Time `json:"restored_at"`
	// Scans holds the read blocks of each network, by its name.
	Scans map[string]Scan `json:"scans,omitempty"`
	// Booked counts the payments that were found and booked.
	Booked int `json:"booked"`
	// Strange lists the first findings that cannot be booked. StrangeCount counts all of them.
	Strange      []string `json:"strange,omitempty"`
	StrangeCount int      `json:"strange_count,omitempty"`
	// Accepted holds an operator's word that the rest need not be known.
	Accepted *Acceptance `json:"accepted,omitempty"`
	// Lost: no backup was restored. The database has lost the commits after Taken, and the store noticed it.
	Lost bool `json:"lost,omitempty"`
	// Copied: no backup was restored. The database is a copy, or was moved, and was last written after Taken. From tells
	// operators where it was before, "" if that is not known.
	Copied bool   `json:"copied,omitempty"`
	From   string `json:"from,omitempty"`
}

// MarkedBlock is the safe block that a backup was taken at.
type MarkedBlock struct {
	Network string    `json:"network"`
	Genesis string    `json:"genesis"` // hash of block 0
	Number  uint64    `json:"number"`
	Hash    string    `json:"hash"`
	Time    time.Time `json:"time"`
}

// Scan says which blocks of a network were read: from First to before Next.
type Scan struct {
	First uint64 `json:"first"`
	Next  uint64 `json:"next"`
}

// Acceptance holds an operator's word that the rest need not be known.
type Acceptance struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"` // as the operator's tool says
}

// ReconcileStep is one atomic step of reconciling.
type ReconcileStep struct {
	Network string
	Scan    Scan
	Found   []*Payment
	Strange []string
}

// maxStrange bounds what is kept of the strange.
const maxStrange = 20

// Advance notes a step, of which n payments were new.
func (r *Restore) Advance(s ReconcileStep, n int) {
	if r.Scans == nil {
		r.Scans = map[string]Scan{}
	}
	r.Scans[s.Network] = s.Scan
	r.Booked += n
	for _, text := range s.Strange {
		if r.knows(text) {
			continue
		}
		r.StrangeCount++
		if len(r.Strange) < maxStrange {
			r.Strange = append(r.Strange, text)
		}
	}
}

// knows reports whether something strange was noted before: blocks are read more than once.
func (r *Restore) knows(text string) bool {
	return slices.Contains(r.Strange, text) || len(r.Strange) >= maxStrange // it is known that there is much
}

// RestoreNoted is the time for which a new reconciliation cannot end: the one that ends may be an earlier one,
// which another node has finished.
const RestoreNoted = MaxValidity

// Again updates the state of a store that was restored from a backup of a store that was not
// reconciled. Read blocks stay read. An operator's acceptance ends.
func (r *Restore) Again(now time.Time) {
	r.At, r.Accepted = now.UTC(), nil
}

// Refusal is the error of payments that wait for the chain.
func (r *Restore) Refusal() *ReconcilingError {
	return &ReconcilingError{Taken: r.Taken, Lost: r.Lost, Copied: r.Copied}
}

// ReconcilingError: the store was restored and is not reconciled yet. It is an ErrUnavailable.
type ReconcilingError struct {
	Taken        time.Time
	Lost, Copied bool // see [Restore]
}

func (e *ReconcilingError) Error() string {
	if e.Lost {
		return fmt.Sprintf("the database has lost what was written after %s: payments resume when the chain has told what that was",
			e.Taken.UTC().Format(time.RFC3339))
	}
	if e.Copied {
		return fmt.Sprintf("the database was copied or moved after %s: payments resume when the chain has told what it does not know",
			e.Taken.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("restored from a backup of %s: payments resume when the chain has told what the backup does not know",
		e.Taken.UTC().Format(time.RFC3339))
}

// Unwrap makes it an ErrUnavailable.
func (e *ReconcilingError) Unwrap() error { return ErrUnavailable }

// reconciled refuses a payment that is new, or open by the backup: it may have been given up since,
// and another one made. The payload of a settled payment moves nothing.
func reconciled(v BeginView, how How) error {
	if how != Created && how != Driven {
		return nil
	}
	r, err := v.Restored()
	if err != nil || r == nil {
		return err
	}
	return r.Refusal()
}

// found makes the row of a payment that only the chain tells of. It counts as spent by the key on
// the day of its block. Its task and host are not known, so that budgets of hosts do not see it.
// A withdrawal counts for no key, and equal orders get it.
func (p *Payer) found(ctx context.Context, w Wallet, a x402.Asset, u UsedAuthorization) (*Payment, error) {
	k, err := p.payerOf(ctx, w, u)
	if err != nil {
		return nil, err
	}
	at := u.Block.Time.UTC()
	row := &Payment{
		ID: idOf("payment", at, a, u), KeyID: k.ID, OrganizationID: k.OrganizationID,
		Terms:    Terms{Network: w.Network, Scheme: schemeOf(u.Rail), Asset: a.Address, PayTo: u.To, Amount: u.Value.SubSaturated(u.Fee)},
		Currency: a.Currency(), WalletID: w.ID, Created: at,
		Authorization: x402.Authorization{From: u.From, To: u.To, Value: u.Value, ValidAfter: p.orderOf(u), ValidBefore: uint64(at.Unix()), Nonce: u.Nonce, Rail: u.Rail},
		State:         Settled, Confirmed: true, Reconciled: true, Closed: at, Transaction: u.Transaction,
		Reason: "found on the chain: the books were restored from a backup, or copied, and did not have it", Answered: true,
		EventID: idOf("event", at, a, u), Check: at.Add(RetainPayload),
	}
	if !u.Fee.IsZero() {
		row.Charged = u.Value
	}
	if of := p.withdrawn(w, u); of != (Hash{}) {
		row.Door, row.RequestURL, row.Host = policy.DoorOperator, WithdrawalURL+u.To.String(), WithdrawalHost
		row.Identity, row.Fingerprint, row.Answered = of, of, false
		return row, nil
	}
	if !k.Operator {
		row.Reservations = []Reservation{{Counter: PlaceCounter(k.Owner(), at), Amount: money.New(1), Release: ReleasePlace}}
	}
	row.Reservations = append(row.Reservations, budgeted(row, DailyCounter(k.ID, row.Currency, at)))
	if p.countsHours(k) {
		row.Reservations = append(row.Reservations, budgeted(row, byHour.key(k.ID, row.Currency)+byHour.of(at)))
	}
	if k.Parent == "" {
		return row, nil
	}
	parent, err := p.store.Key(ctx, k.Parent)
	if err != nil {
		return nil, fmt.Errorf("parent of key %s: %w", k.ID, err)
	}
	row.Reservations = append(row.Reservations, budgeted(row, DailyCounter(parent.ID, row.Currency, at)))
	if p.countsHours(parent) {
		row.Reservations = append(row.Reservations, budgeted(row, byHour.key(parent.ID, row.Currency)+byHour.of(at)))
	}
	return row, nil
}

func schemeOf(r x402.Rail) string {
	if r == x402.RailUpto {
		return x402.SchemeUpto
	}
	return x402.SchemeExact
}

// Booking returns what the store writes beside the row of a found payment, in the same transaction.
func (p *Payment) Booking() Effects {
	e := p.event(Outcome{EventID: p.EventID, At: p.Closed})
	fx := Effects{Event: &e, Was: Open}
	for _, r := range p.Reservations {
		fx.Counters = append(fx.Counters, CounterChange{Counter: r.Counter, Amount: r.Amount, Add: true})
	}
	return fx
}

// Again returns what a store writes beside the row of a payment that it has lost and that its caller still
// knows: what the payment reserves now, and its spend event if it is settled.
func (p *Payment) Again() Effects {
	fx := Effects{Was: Open}
	for _, r := range p.Reservations {
		moved := r.Moved()
		switch {
		case !r.Released:
			fx.Counters = append(fx.Counters, CounterChange{Counter: r.Counter, Amount: r.Amount, Add: true})
		case p.State == Settled && moved != "":
			fx.Counters = append(fx.Counters, CounterChange{Counter: moved, Amount: r.Amount, Add: true})
		}
	}
	if p.State == Settled {
		e := p.event(Outcome{EventID: p.EventID, At: p.Closed})
		fx.Event = &e
	}
	return fx
}

// idOf makes a UUIDv7 of a block's time that only this authorization has: booking is idempotent.
func idOf(what string, at time.Time, a x402.Asset, u UsedAuthorization) string {
	h := sha256.New()
	h.Write([]byte("purser/reconciled/" + what + "\x00"))
	h.Write(a.Address.Bytes())
	h.Write(u.From.Bytes())
	h.Write(u.Nonce[:])
	id := uuid.UUID(h.Sum(nil)[:16])
	setTime(&id, max(0, at.UnixMilli()))
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
