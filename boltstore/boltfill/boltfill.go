// Package boltfill writes long histories of payments into a store, for tests and measurements:
// plausible rows at many hosts and for many tasks, in which purser check finds no fault. purser
// itself does not use it.
package boltfill

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Options say what to write. Keys and Payments are required.
type Options struct {
	// Keys are the ids of the API keys that paid; the first ones paid most.
	Keys []string
	// Payments is the number of payments. There are a few more spend events, because every
	// thousandth payment is disputed.
	Payments int
	// To is the time of the last payment. They begin 30 days before that day. Default: now.
	To time.Time
	// Progress hears how many payments are written; nil: it is not called.
	Progress func(done int)
}

const (
	hosts, tasks = 12, 6 // numbers of names
	perWrite     = 5000  // payments in one transaction
)

// Fill writes a history into a store.
func Fill(ctx context.Context, db *boltstore.DB, o Options) error {
	if len(o.Keys) == 0 || o.Payments < 1 {
		return errors.New("boltfill: no keys or no payments")
	}
	if o.To.IsZero() {
		o.To = time.Now().UTC()
	}
	f := filler{o, rand.New(rand.NewPCG(0, 402))} //nolint:gosec // the same history every time
	list := make([]boltstore.History, 0, perWrite)
	for n := range o.Payments {
		h, err := f.one(n)
		if err != nil {
			return fmt.Errorf("boltfill: %w", err)
		}
		if list = append(list, h); len(list) < perWrite && n < o.Payments-1 {
			continue
		}
		if err := db.Import(ctx, list); err != nil {
			return fmt.Errorf("boltfill: %w", err)
		}
		if list = list[:0]; o.Progress != nil {
			o.Progress(n + 1)
		}
	}
	return nil
}

type filler struct {
	Options
	random *rand.Rand
}

// few picks one of n, the first ones more often.
func (f *filler) few(n int) int { return min(f.random.IntN(n), f.random.IntN(n)) }

// one makes the payment with a number.
func (f *filler) one(n int) (h boltstore.History, err error) {
	from := f.To.AddDate(0, 0, -30).Truncate(24 * time.Hour)
	at := from.Add(time.Duration(float64(f.To.Sub(from)) * float64(n) / float64(f.Payments))).UTC().Truncate(time.Millisecond)
	host := "api-" + strconv.Itoa(f.few(hosts)) + ".example.com"
	task := ""
	if t := f.few(tasks + 1); t > 0 {
		task = "task-" + strconv.Itoa(t)
	}
	base, _ := x402.NetworkByWire("base")
	usdc := base.Assets[0]
	amount := money.New(1000 * uint64(1+f.few(200))) // 0.001 to 0.2 USDC
	var nonce x402.Nonce                             // the transaction is called the same: in order, which is written faster
	binary.BigEndian.PutUint32(nonce[:], uint32(n))
	for i := 4; i < len(nonce); i += 4 {
		binary.BigEndian.PutUint32(nonce[i:], f.random.Uint32())
	}
	id := f.id(at)
	p := &pay.Payment{
		ID: id, KeyID: f.Keys[f.few(len(f.Keys))], Door: policy.DoorProxy, Task: task, Host: host,
		RequestURL: "https://" + host + "/v1/reports?n=" + strconv.Itoa(n),
		Terms: pay.Terms{
			Settlement: pay.SettleSeller, Network: base.Name, Scheme: "exact", Asset: usdc.Address, PayTo: x402.EVMAddress([20]byte{0x70}), Amount: amount,
		},
		Currency: usdc.Symbol, WalletID: "wallet", Created: at, State: pay.Open,
		Fingerprint: pay.HashOf("fingerprint", id), Identity: pay.HashOf("identity", id),
		Authorization: x402.Authorization{
			From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{0x70}), Value: amount, ValidBefore: uint64(at.Add(time.Minute).Unix()), Nonce: nonce,
		},
	}
	p.Grant("boltfill", at.Add(pay.LeaseTime))
	settled := pay.Outcome{
		PaymentID: id, Fence: p.Lease.Fence, At: at, Verdict: pay.VerdictSettled, EventID: f.id(at),
		Transaction: "0x" + hex.EncodeToString(nonce[:]),
	}
	later := pay.Outcome{PaymentID: id, Fence: p.Lease.Fence, At: at.Add(2 * time.Minute), Verdict: pay.VerdictConfirmed, Retire: true, Release: true, Answered: true}
	if n%1000 == 999 {
		later.Verdict, later.EventID, later.Reason = pay.VerdictDisputed, f.id(later.At), "the chain does not have it"
	}
	for _, o := range []pay.Outcome{settled, later} {
		fx, err := p.Apply(o)
		if err != nil {
			return h, err
		}
		if fx.Event != nil {
			h.Events = append(h.Events, *fx.Event)
		}
	}
	h.Payment = p
	return h, nil
}

// id makes a UUIDv7 of a time.
func (f *filler) id(at time.Time) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000|f.random.Uint64()&0xfff)
	binary.BigEndian.PutUint64(id[8:], 1<<63|f.random.Uint64()>>2)
	return id.String()
}
