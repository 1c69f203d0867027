package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// payments is the part of a store that a payment uses.
type payments interface {
	Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error)
	Record(ctx context.Context, o pay.Outcome) (*pay.Payment, pay.Effects, error)
}

// purchase is a payment that a store has not seen, and its outcome.
type purchase struct {
	begin   *pay.Begin
	outcome pay.Outcome // but the fence
}

// newPurchase makes the nth purchase of a key.
func newPurchase(key pay.Key, n int) *purchase {
	at := time.Now().UTC()
	row := newRow(key, n, at)
	count, sum := pay.PendingCounters(key.ID)
	most := money.New(1 << 60)
	limit := func(c pay.Counter, amount money.Amount, release pay.Release) pay.Limit {
		return pay.Limit{Reservation: pay.Reservation{Counter: c, Amount: amount, Release: release}, Max: &most}
	}
	one := money.New(1)
	var signature x402.Signature
	for i := range signature {
		signature[i] = byte(rand.Uint32()) //nolint:gosec // the signature is not checked
	}
	return &purchase{
		&pay.Begin{
			Now: at, Owner: "bench",
			CallIdentity: pay.CallIdentity{KeyID: row.KeyID, Fingerprint: row.Fingerprint, Identity: row.Identity},
			Judgement:    pay.Judgement{Place: limit(pay.PlaceCounter("key/"+key.ID, at), one, pay.ReleasePlace)},
			Proposal: pay.Proposal{New: row, Limits: []pay.Limit{
				limit(count, one, pay.ReleasePending), limit(sum, row.Terms.Amount, pay.ReleasePending),
				limit(pay.DailyCounter(key.ID, row.Currency, at), row.Terms.Amount, pay.ReleaseBudget),
			}},
		},
		pay.Outcome{
			PaymentID: row.ID, At: at, Verdict: pay.VerdictSettled, EventID: newID(),
			Transaction: transaction(), Signature: &signature, Check: at.Add(pay.RetainPayload), Release: true, Answered: true,
		},
	}
}

// newRow returns a payment of usual size. Each has a host of its own among a few, so that no bound on
// one host is met.
func newRow(key pay.Key, n int, at time.Time) *pay.Payment {
	id := newID()
	host := "api-" + strconv.Itoa(n%12) + ".example.com"
	base, _ := x402.NetworkByWire("base")
	usdc := base.Assets[0]
	amount := money.New(100)
	return &pay.Payment{
		ID: id, KeyID: key.ID, OrganizationID: key.OrganizationID, Door: policy.DoorProxy,
		RequestURL: "http://" + host + "/reports?n=" + strconv.Itoa(n), Host: host,
		Terms: pay.Terms{
			Settlement: pay.SettleSeller, Network: base.Name, Scheme: "exact", Asset: usdc.Address, PayTo: x402.EVMAddress([20]byte{0x70}), Amount: amount,
		},
		Currency: usdc.Symbol, WalletID: "history", Created: at, State: pay.Open,
		Fingerprint: pay.HashOf("fingerprint", id), Identity: pay.HashOf("identity", id),
		Offer: x402.Offer{
			Version: 2,
			Accepted: json.RawMessage(`{"scheme":"exact","network":"eip155:8453","amount":"100","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",` +
				`"payTo":"0x7000000000000000000000000000000000000000","maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}`),
			Resource: json.RawMessage(`{"url":"http://api.example.com/reports","description":"a report","mimeType":"application/json"}`),
		},
		Authorization: x402.Authorization{
			From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{0x70}), Value: amount,
			ValidBefore: uint64(at.Add(5 * time.Minute).Unix()), Nonce: x402.Nonce(pay.HashOf("nonce", id)),
		},
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// write begins the payment and, if it is to be settled, records its outcome.
func (p *purchase) write(ctx context.Context, db payments, settled bool) error {
	begun, err := db.Begin(ctx, p.begin)
	if err != nil || !settled {
		return err
	}
	p.outcome.Fence = begun.Payment.Lease.Fence
	_, _, err = db.Record(ctx, p.outcome)
	return err
}

// stock holds purchases of the clients of a case, made before they are measured: a caller's work is not the store's. It
// keeps none that was used, and none beyond its case's turn: they would be a heap that the store has not.
type stock struct {
	keys []pay.Key
	made [][]*purchase // of each client, in the order of their ids
	used atomic.Int64  // since the last fill
	n    int
}

// fill makes as many purchases as were used the last time, and a half more.
func (s *stock) fill() {
	for range s.used.Swap(0) * 3 / 2 {
		client := s.n % len(s.made)
		s.made[client] = append(s.made[client], newPurchase(s.keys[client%len(s.keys)], s.n))
		s.n++
	}
}

// next takes a purchase of a client. Without any, it makes one.
func (s *stock) next(client int, serial uint64) *purchase {
	s.used.Add(1)
	if len(s.made[client]) == 0 {
		return newPurchase(s.keys[client%len(s.keys)], int(serial)) //nolint:gosec // a count
	}
	p := s.made[client][0]
	s.made[client][0] = nil // the array behind the list would keep it
	s.made[client] = s.made[client][1:]
	return p
}
