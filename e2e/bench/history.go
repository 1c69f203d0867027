package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	// shortHistory is the number of events that a long history is compared with.
	shortHistory = 1000
	// fillers is the number of concurrent writers. The store makes one transaction of all waiting
	// writes.
	fillers = 256
	// keepFree is the part of the disk that stays free while filling, in bytes.
	keepFree = 2 << 30
	// historyClients is the number of clients that pay while a history exists.
	historyClients = 8
	historyKey     = "pk_bench_history"
	page           = 100
)

// runHistory lists and pays with two keys: one with a short history and one with a long one. Both
// histories are ordinary payments, written through the store.
func runHistory(ctx context.Context, b *bench) error {
	var servers []*purser
	defer func() {
		for _, p := range servers {
			p.stop()
		}
	}()
	sizes := []int{shortHistory, b.events}
	for _, events := range sizes {
		p, err := b.startWithHistory(ctx, events)
		if err != nil {
			return fmt.Errorf("%d events: %w", events, err)
		}
		servers = append(servers, p)
	}
	for i, p := range servers {
		m, err := b.drive(ctx, load{clients: 1}, p.pid(), func(ctx context.Context, _ int, _ uint64, _ bool) error {
			_, got, err := ask(ctx, p.api, http.MethodGet, p.url+"/v1/spend?limit="+strconv.Itoa(page), "", http.StatusOK, "X-Api-Key", historyKey)
			if err != nil {
				return err
			}
			return wantPage(got)
		})
		if err != nil {
			return err
		}
		m.OwnMiB, m.MiB = memory(p.pid())
		b.report.add("history", withEvents(purserSpend, sizes[i]), m)
	}
	for i, p := range servers {
		clients, err := p.proxied([]string{historyKey})
		if err != nil {
			return err
		}
		m, err := b.drivePaid(ctx, p, clients, load{clients: historyClients})
		closeIdle(clients)
		if err != nil {
			return err
		}
		b.report.add("history", withEvents(purserProxy, sizes[i]), m)
	}
	return nil
}

func withEvents(what string, events int) string { return fmt.Sprintf("%s, %d events", what, events) }

func wantPage(got []byte) error {
	var list struct{ Events []json.RawMessage }
	if err := json.Unmarshal(got, &list); err != nil {
		return err
	}
	if len(list.Events) != page {
		return fmt.Errorf("%d events listed, not %d", len(list.Events), page)
	}
	return nil
}

// startWithHistory fills a store and starts purser on it.
func (b *bench) startWithHistory(ctx context.Context, events int) (*purser, error) {
	dir := filepath.Join(b.dir, "history-"+strconv.Itoa(events))
	var master vault.MasterKey
	rand.Read(master[:]) // cannot fail
	if err := b.fillStore(ctx, filepath.Join(dir, "data", "purser.db"), master, events); err != nil {
		return nil, fmt.Errorf("fill the store: %w", err)
	}
	p, err := b.startPurser(ctx, dir, "PURSER_MASTER_KEY="+hex.EncodeToString(master[:]))
	if err != nil {
		return nil, err
	}
	if err := p.newWallet(ctx, historyKey); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (b *bench) fillStore(ctx context.Context, path string, master vault.MasterKey, events int) error {
	db, err := boltstore.Open(ctx, boltstore.Options{Path: path, MasterKey: vault.Given(master), MinFree: keepFree})
	if err != nil {
		return err
	}
	began := time.Now()
	err = fill(ctx, db, events, func(done int) {
		b.say("%d of %d payments written after %s", done, events, time.Since(began).Round(time.Second))
	})
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		b.say("%d payments written in %s, %d MiB", events, time.Since(began).Round(100*time.Millisecond), info.Size()>>20)
	}
	return nil
}

// fill writes settled payments of one key. They take no places of the organization's 150,000
// payments of this month, because their places are counted elsewhere.
func fill(ctx context.Context, db *boltstore.DB, events int, progress func(done int)) error {
	now := time.Now().UTC()
	key, err := db.CreateKey(ctx, pay.NewKey{
		Key:    pay.Key{ID: newID(), Label: "history", OrganizationID: "bench-history", Created: now},
		Secret: historyKey, Plan: pay.PlanAgency,
	})
	if err != nil {
		return err
	}
	h := history{db: db, key: key, began: now.AddDate(0, 0, -20)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	const chunk = 500_000
	var next atomic.Int64
	var all sync.WaitGroup
	for range fillers {
		all.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				if n > events {
					return
				}
				if err := h.write(ctx, n, events); err != nil {
					cancel(err)
				}
				if n%chunk == 0 {
					progress(n)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// history writes payments of the last twenty days, evenly spread.
type history struct {
	db    *boltstore.DB
	key   pay.Key
	began time.Time
}

func (h history) write(ctx context.Context, n, of int) error {
	at := h.began.Add(time.Duration(float64(19*24*time.Hour) * float64(n) / float64(of)))
	row := h.row(n, at)
	count, sum := pay.PendingCounters(h.key.ID)
	limit := func(c pay.Counter, amount x402.Amount, release pay.Release) pay.Limit {
		return pay.Limit{Reservation: pay.Reservation{Counter: c, Amount: amount, Release: release}}
	}
	one := x402.NewAmount(1)
	begun, err := h.db.Begin(ctx, &pay.Begin{
		Now: at, Owner: "bench",
		CallIdentity: pay.CallIdentity{KeyID: row.KeyID, Fingerprint: row.Fingerprint, Identity: row.Identity},
		Judgement:    pay.Judgement{Place: limit(pay.PlaceCounter("bench", at), one, pay.ReleasePlace)},
		Proposal: pay.Proposal{New: row, Limits: []pay.Limit{
			limit(count, one, pay.ReleasePending), limit(sum, row.Terms.Amount, pay.ReleasePending),
			limit(pay.DailyCounter(h.key.ID, row.Currency, at), row.Terms.Amount, pay.ReleaseBudget),
		}},
	})
	if err != nil {
		return err
	}
	var signature x402.Signature
	rand.Read(signature[:]) // cannot fail; the signature is not checked
	_, _, err = h.db.Record(ctx, pay.Outcome{
		PaymentID: row.ID, Fence: begun.Payment.Lease.Fence, At: at, Verdict: pay.VerdictSettled, EventID: newID(),
		Transaction: transaction(), Signature: &signature, Check: at.Add(pay.RetainPayload), Release: true, Answered: true,
	})
	return err
}

// row returns a payment of usual size.
func (h history) row(n int, at time.Time) *pay.Payment {
	id := newID()
	url := "http://api.example.com/reports?n=" + strconv.Itoa(n)
	base, _ := x402.NetworkByWire("base")
	usdc := base.Assets[0]
	amount := x402.NewAmount(100)
	return &pay.Payment{
		ID: id, KeyID: h.key.ID, OrganizationID: h.key.OrganizationID, Door: pay.DoorProxy, RequestURL: url, Host: "api.example.com",
		Terms: pay.Terms{
			Settlement: pay.SettleSeller, Network: base.Name, Scheme: "exact", Asset: usdc.Address, PayTo: x402.Address{0x70}, Amount: amount,
		},
		Currency: usdc.Symbol, WalletID: "history", Created: at, State: pay.Open,
		Fingerprint: pay.HashOf("fingerprint", id), Identity: pay.HashOf("identity", id),
		Offer: x402.Offer{
			Version: 2,
			Accepted: json.RawMessage(`{"scheme":"exact","network":"eip155:8453","amount":"100","asset":"` + usdc.Address.String() +
				`","payTo":"0x7000000000000000000000000000000000000000","maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}`),
			Resource: json.RawMessage(`{"url":"http://api.example.com/reports","description":"a report","mimeType":"application/json"}`),
		},
		Authorization: x402.Authorization{
			From: x402.Address{1}, To: x402.Address{0x70}, Value: amount,
			ValidBefore: uint64(at.Add(time.Minute).Unix()), Nonce: x402.Nonce(pay.HashOf("nonce", id)),
		},
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
