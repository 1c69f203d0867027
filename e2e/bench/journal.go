package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	// openPayments is the number of open payments that a start meets.
	openPayments = 100_000
	// freshPayments is the number of payments whose file is measured before they are retired.
	freshPayments = 20_000
	// fillers is the number of concurrent writers. The store makes one transaction of all waiting
	// writes.
	fillers = 256
)

// runStart measures how long purser takes to answer: on an empty store, and on one with open
// payments, after a clean end and after a crash under load.
func runStart(ctx context.Context, b *bench) error {
	began := time.Now()
	empty, err := b.startPurser(ctx, filepath.Join(b.dir, "start-empty"))
	if err != nil {
		return err
	}
	b.report.Start.EmptyMS = milliseconds(time.Since(began))
	empty.stop()
	made, err := b.newStore(ctx, "start", func(ctx context.Context, db *boltstore.DB, key pay.Key) error {
		return fill(ctx, db, key, openPayments, false)
	})
	if err != nil {
		return err
	}
	p, took, err := b.startOn(ctx, made)
	if err != nil {
		return err
	}
	b.report.Start.Open, b.report.Start.OpenMS = openPayments, took
	if _, err := b.drivePaid(ctx, b.through(p, []string{historyKey}), "/paid", load{clients: historyClients}); err != nil {
		p.stop()
		return err
	}
	p.kill()
	if p, b.report.Start.CrashMS, err = b.startOn(ctx, made); err != nil {
		return err
	}
	p.stop()
	return nil
}

// runSize measures the files of settled payments that still have their payloads.
func runSize(ctx context.Context, b *bench) error {
	sizes := make([]float64, 2)
	for i, payments := range []int{freshPayments, 2 * freshPayments} {
		made, err := b.newStore(ctx, "size-"+strconv.Itoa(payments), func(ctx context.Context, db *boltstore.DB, key pay.Key) error {
			return fill(ctx, db, key, payments, true)
		})
		if err != nil {
			return err
		}
		sizes[i] = made.size
	}
	b.report.File.FreshKB = (sizes[1] - sizes[0]) / 1000 / freshPayments // without what every file has
	return nil
}

// fill writes payments of a key as paying does, one Begin and, for settled ones, one Record each.
func fill(ctx context.Context, db *boltstore.DB, key pay.Key, payments int, settled bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range fillers {
		all.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				if n > payments {
					return
				}
				if err := write(ctx, db, key, n, settled); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func write(ctx context.Context, db payments, key pay.Key, n int, settled bool) error {
	at := time.Now().UTC()
	row := newRow(key, n, at)
	count, sum := pay.PendingCounters(key.ID)
	most := x402.NewAmount(1 << 60)
	limit := func(c pay.Counter, amount x402.Amount, release pay.Release) pay.Limit {
		return pay.Limit{Reservation: pay.Reservation{Counter: c, Amount: amount, Release: release}, Max: &most}
	}
	one := x402.NewAmount(1)
	begun, err := db.Begin(ctx, &pay.Begin{
		Now: at, Owner: "bench",
		CallIdentity: pay.CallIdentity{KeyID: row.KeyID, Fingerprint: row.Fingerprint, Identity: row.Identity},
		Judgement:    pay.Judgement{Place: limit(pay.PlaceCounter("key/"+key.ID, at), one, pay.ReleasePlace)},
		Proposal: pay.Proposal{New: row, Limits: []pay.Limit{
			limit(count, one, pay.ReleasePending), limit(sum, row.Terms.Amount, pay.ReleasePending),
			limit(pay.DailyCounter(key.ID, row.Currency, at), row.Terms.Amount, pay.ReleaseBudget),
		}},
	})
	if err != nil || !settled {
		return err
	}
	var signature x402.Signature
	for i := range signature {
		signature[i] = byte(rand.Uint32()) //nolint:gosec // the signature is not checked
	}
	_, _, err = db.Record(ctx, pay.Outcome{
		PaymentID: row.ID, Fence: begun.Payment.Lease.Fence, At: at, Verdict: pay.VerdictSettled, EventID: newID(),
		Transaction: transaction(), Signature: &signature, Check: at.Add(pay.RetainPayload), Release: true, Answered: true,
	})
	return err
}

// newRow returns a payment of usual size. Each has a host of its own among a few, so that no bound on
// one host is met.
func newRow(key pay.Key, n int, at time.Time) *pay.Payment {
	id := newID()
	host := "api-" + strconv.Itoa(n%12) + ".example.com"
	base, _ := x402.NetworkByWire("base")
	usdc := base.Assets[0]
	amount := x402.NewAmount(100)
	return &pay.Payment{
		ID: id, KeyID: key.ID, OrganizationID: key.OrganizationID, Door: pay.DoorProxy,
		RequestURL: "http://" + host + "/reports?n=" + strconv.Itoa(n), Host: host,
		Terms: pay.Terms{
			Settlement: pay.SettleSeller, Network: base.Name, Scheme: "exact", Asset: usdc.Address, PayTo: x402.Address{0x70}, Amount: amount,
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
			From: x402.Address{1}, To: x402.Address{0x70}, Value: amount,
			ValidBefore: uint64(at.Add(5 * time.Minute).Unix()), Nonce: x402.Nonce(pay.HashOf("nonce", id)),
		},
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
