package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/x402"
)

// callOf wants to pay 5 units of a key's daily budget.
func callOf(k pay.Key, now time.Time) *pay.Begin {
	id := uuid.Must(uuid.NewV7()).String()
	five, one, most := x402.NewAmount(5), x402.NewAmount(1), x402.NewAmount(1<<60)
	n, sum := pay.PendingCounters(k.ID)
	limit := func(c pay.Counter, amount x402.Amount, release pay.Release) pay.Limit {
		return pay.Limit{Reservation: pay.Reservation{Counter: c, Amount: amount, Release: release}, Max: &most}
	}
	row := &pay.Payment{
		ID: id, KeyID: k.ID, Door: pay.DoorProxy, RequestURL: "https://api.example.com/v1/data?id=" + id, Host: "api.example.com",
		Terms:    pay.Terms{Settlement: pay.SettleSeller, Network: "base", Scheme: "exact", Asset: x402.Address{0xa5}, PayTo: x402.Address{0x70}, Amount: five},
		Currency: "USDC", WalletID: "w", Created: now, State: pay.Open,
		Fingerprint: pay.HashOf("f", id), Identity: pay.HashOf("i", id),
		Offer: x402.Offer{
			Version: 2,
			Accepted: []byte(`{"scheme":"exact","network":"eip155:8453","amount":"5","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",` +
				`"payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}`),
			Resource: []byte(`{"url":"https://api.example.com/v1/data","description":"data","mimeType":"application/json"}`),
		},
		Authorization: x402.Authorization{
			From: x402.Address{1}, To: x402.Address{0x70}, Value: five,
			ValidBefore: uint64(now.Add(time.Minute).Unix()), Nonce: x402.Nonce(pay.HashOf(id)),
		},
	}
	return &pay.Begin{
		Now: now, Owner: "node",
		CallIdentity: pay.CallIdentity{KeyID: k.ID, Fingerprint: row.Fingerprint, Identity: row.Identity},
		Judgement:    pay.Judgement{MaxUnanswered: 20, Place: limit(pay.PlaceCounter("key/"+k.ID, now), one, pay.ReleasePlace)},
		Proposal: pay.Proposal{New: row, Limits: []pay.Limit{
			limit(n, one, pay.ReleasePending), limit(sum, five, pay.ReleasePending), limit(pay.DailyCounter(k.ID, "USDC", now), five, pay.ReleaseBudget),
		}},
	}
}

// BenchmarkPay pays from hot budgets: two operations each.
func BenchmarkPay(b *testing.B) {
	server := pgtest.Start(b)
	for _, w := range []struct{ nodes, callers, keys int }{{1, 1, 1}, {1, 8, 1}, {1, 64, 1}, {1, 64, 64}, {3, 64, 1}, {3, 64, 64}} {
		b.Run(fmt.Sprintf("nodes=%d/callers=%d/budgets=%d", w.nodes, w.callers, w.keys), func(b *testing.B) {
			ctx, url := context.Background(), fresh(b, server)
			var nodes []*pgstore.DB
			for range w.nodes {
				o := &opener{url: url}
				o.Open(b)
				defer o.Close(b)
				nodes = append(nodes, o.db)
			}
			var keys []pay.Key
			for range w.keys {
				k, err := nodes[0].CreateKey(ctx, pay.NewKey{Key: pay.Key{ID: uuid.Must(uuid.NewV7()).String(), Created: time.Now()}, Secret: "pk_" + uuid.NewString()})
				if err != nil {
					b.Fatal(err)
				}
				keys = append(keys, k)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			b.ResetTimer()
			for i := range w.callers {
				all.Go(func() {
					d := nodes[i%len(nodes)]
					for left.Add(-1) >= 0 {
						now := time.Now()
						begun, err := d.Begin(ctx, callOf(keys[i%len(keys)], now))
						if err != nil {
							b.Error(err)
							return
						}
						p, sig := begun.Payment, x402.Signature{1}
						_, _, err = d.Record(ctx, pay.Outcome{
							PaymentID: p.ID, Fence: p.Lease.Fence, At: now, Verdict: pay.VerdictSettled, EventID: uuid.Must(uuid.NewV7()).String(),
							Signature: &sig, Release: true, Answered: true, Transaction: fmt.Sprintf("0x%x", pay.HashOf(p.ID)),
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "payments/s")
		})
	}
}
