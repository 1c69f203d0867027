package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// callOf wants to pay 5 units of a key's daily budget.
func callOf(k pay.Key, now time.Time) *pay.Begin {
	id := uuid.Must(uuid.NewV7()).String()
	five, one, most := money.New(5), money.New(1), money.New(1<<60)
	n, sum := pay.PendingCounters(k.ID)
	limit := func(c pay.Counter, amount money.Amount, release pay.Release) pay.Limit {
		return pay.Limit{Reservation: pay.Reservation{Counter: c, Amount: amount, Release: release}, Max: &most}
	}
	row := &pay.Payment{
		ID: id, KeyID: k.ID, Door: policy.DoorProxy, RequestURL: "https://api.example.com/v1/data?id=" + id, Host: "api.example.com",
		Terms:    pay.Terms{Settlement: pay.SettleSeller, Network: "base", Scheme: "exact", Asset: x402.EVMAddress([20]byte{0xa5}), PayTo: x402.EVMAddress([20]byte{0x70}), Amount: five},
		Currency: "USDC", WalletID: "w", Created: now, State: pay.Open,
		Fingerprint: pay.HashOf("f", id), Identity: pay.HashOf("i", id),
		Offer: x402.Offer{
			Version: 2,
			Accepted: []byte(`{"scheme":"exact","network":"eip155:8453","amount":"5","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",` +
				`"payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}`),
			Resource: []byte(`{"url":"https://api.example.com/v1/data","description":"data","mimeType":"application/json"}`),
		},
		Authorization: x402.Authorization{
			From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{0x70}), Value: five,
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

// BenchmarkPay pays from hot budgets: two operations each. It counts what a payment costs the database.
func BenchmarkPay(b *testing.B) {
	server := pgtest.Start(b, "shared_preload_libraries=pg_stat_statements")
	server.Exec(b, `CREATE EXTENSION pg_stat_statements`)
	for _, w := range []workload{{1, 1, 1}, {1, 8, 1}, {1, 64, 1}, {1, 64, 64}, {3, 64, 1}, {3, 64, 64}} {
		b.Run(w.String(), func(b *testing.B) {
			url := fresh(b, server)
			before := costOf(b, server)
			w.run(b, url)
			after := costOf(b, server)
			for i, unit := range []string{"transactions", "statements", "WAL-bytes", "disk-bytes"} {
				b.ReportMetric((after[i]-before[i])/float64(b.N), unit+"/payment")
			}
		})
	}
}

// costOf reads the server's counts of transactions, statements, bytes of WAL and bytes of tables and indexes.
func costOf(b *testing.B, server *pgtest.Server) (cost [4]float64) {
	b.Helper()
	c, err := pgx.Connect(b.Context(), server.URL)
	if err != nil {
		b.Fatal(err)
	}
	err = c.QueryRow(b.Context(), `SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8, (SELECT sum(calls) FROM pg_stat_statements)::float8,
		(pg_current_wal_insert_lsn() - '0/0')::float8, pg_database_size(current_database())::float8`).Scan(&cost[0], &cost[1], &cost[2], &cost[3])
	if err := errors.Join(err, c.Close(b.Context())); err != nil {
		b.Fatal(err)
	}
	return cost
}

// BenchmarkFarAway pays over a network on which an answer takes a while.
func BenchmarkFarAway(b *testing.B) {
	server := pgtest.Start(b)
	link := server.Link(b)
	for _, rtt := range []time.Duration{0, 2 * time.Millisecond, 10 * time.Millisecond} {
		for _, w := range []workload{{1, 64, 1}, {1, 64, 64}, {3, 192, 1}, {3, 192, 64}} {
			b.Run(fmt.Sprintf("rtt=%s/%s", rtt, w), func(b *testing.B) {
				url := fresh(b, server)
				link.Delay(rtt / 2)
				defer link.Delay(0)
				w.run(b, strings.Replace(url, server.URL, link.URL, 1))
			})
		}
	}
}

// BenchmarkHistory pays after -payments earlier ones, which are copies of a few.
func BenchmarkHistory(b *testing.B) {
	server := pgtest.Start(b, "max_wal_size=8GB", "shared_buffers=1GB")
	w := workload{1, 64, 1}
	for _, payments := range []int{0, *history / 10, *history} {
		b.Run(fmt.Sprintf("payments=%d", payments), func(b *testing.B) {
			url := fresh(b, server)
			if payments > 0 {
				fill(b, url, payments)
			}
			w.run(b, url)
		})
	}
}

var history = flag.Int("payments", 100_000, "earlier payments of BenchmarkHistory")

// fill copies settled payments until there are so many. The copies have names and nonces of their own.
func fill(b *testing.B, url string, payments int) {
	b.Helper()
	o := &opener{url: url}
	o.Open(b)
	k := keyOn(b, o.db)
	for range 100 {
		begun, err := o.db.Begin(b.Context(), callOf(k, o.db.Now()))
		if err == nil {
			_, _, err = o.db.Record(b.Context(), settledOf(begun.Payment))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	o.Close(b)
	run(b, url, fmt.Sprintf(`INSERT INTO payments SELECT (r).* FROM (SELECT json_populate_record(q.p, json_build_object('id', gen_random_uuid(), 'nonce', '\x' || encode(sha256(random()::text::bytea), 'hex'),
			'transaction', '\x' || encode(sha256(random()::text::bytea), 'hex'))) r FROM (SELECT p FROM payments p LIMIT 100) q, generate_series(1, %[1]d) OFFSET 0) c`, payments/100),
		fmt.Sprintf(`INSERT INTO spend SELECT (r).* FROM (SELECT json_populate_record(q.s, json_build_object('id', substr((q.s).id, 1, 14) || substr(gen_random_uuid()::text, 15), 'payment_id', gen_random_uuid())) r
			FROM (SELECT s FROM spend s LIMIT 100) q, generate_series(1, %[1]d) OFFSET 0) c`, payments/100), `ANALYZE`)
}

// workload holds how many nodes, callers and budgets there are.
type workload struct{ nodes, callers, budgets int }

func (w workload) String() string {
	return fmt.Sprintf("nodes=%d/callers=%d/budgets=%d", w.nodes, w.callers, w.budgets)
}

// run makes b.N payments in a database.
func (w workload) run(b *testing.B, url string) {
	b.Helper()
	ctx := context.Background()
	var nodes []*pgstore.DB
	for range w.nodes {
		o := &opener{url: url}
		o.Open(b)
		defer o.Close(b)
		nodes = append(nodes, o.db)
	}
	var keys []pay.Key
	for range w.budgets {
		keys = append(keys, keyOn(b, nodes[0]))
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range w.callers {
		all.Go(func() {
			d := nodes[i%len(nodes)]
			for left.Add(-1) >= 0 {
				begun, err := d.Begin(ctx, callOf(keys[i%len(keys)], time.Now()))
				if err == nil {
					_, _, err = d.Record(ctx, settledOf(begun.Payment))
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "payments/s")
}
