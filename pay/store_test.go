package pay_test

import (
	"context"
	"math"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/x402"
)

// memStore is a store in memory with readings for tests.
type memStore struct {
	*memory.Store
	mostFound int // the most payments that one step of reconciling brought
}

func newMemStore(clock pay.Clock) *memStore {
	return &memStore{Store: memory.New(memory.Options{Clock: clock})}
}

func (m *memStore) Reconcile(ctx context.Context, s pay.ReconcileStep) ([]*pay.Payment, error) {
	m.mostFound = max(m.mostFound, len(s.Found))
	return m.Store.Reconcile(ctx, s)
}

// check compares counters and events with the payments.
func (m *memStore) check() error { return m.Check(context.Background()) }

// snapshot copies the store as it is.
func (m *memStore) snapshot() *memStore { return &memStore{Store: m.Snapshot()} }

// payments lists all payments, newest first.
func (m *memStore) payments() []*pay.Payment {
	return must(m.AllPayments(context.Background(), pay.LabelQuery{Limit: math.MaxInt}))
}

// events lists all spend events, newest first.
func (m *memStore) events() (list []pay.SpendEvent) {
	var ids []string
	for _, k := range must(m.ListKeys(context.Background(), "", math.MaxInt)) {
		ids = append(ids, k.ID)
	}
	page := must(m.ListSpend(context.Background(), ids, pay.OrganizationSpendQuery{Limit: math.MaxInt}))
	for _, e := range page.Entries {
		list = append(list, e.SpendEvent)
	}
	return list
}

// leases counts the payments that are held.
func (m *memStore) leases() (n int) {
	for _, p := range m.payments() {
		if p.Lease.Owner != "" {
			n++
		}
	}
	return n
}

// restored returns what is to be reconciled.
func (m *memStore) restored() pay.Restore { return *must(m.Restored(context.Background())) }

// wallet returns the oldest wallet.
func (m *memStore) wallet() pay.Wallet { return must(m.AllWallets(context.Background(), "", 1))[0] }

// count sets a counter, as if much had been counted already.
func (m *memStore) count(c pay.Counter, n uint64) { m.SetCounter(c, x402.NewAmount(n)) }
