package pay_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// memStore is pay.Store in memory, so that the core's own tests need no engine. Every
// row is copied in and out, as a real store would.
type memStore struct {
	pay.Accounts // none: what uses them is tested over a real store
	pay.Audit    // likewise
	mu           sync.Mutex
	keys         map[string]pay.Key
	secrets      map[string]string // secret -> key id
	orgs         map[string]pay.Organization
	wallets      []pay.Wallet
	walletSK     map[string][]byte
	payments     map[string]*pay.Payment
	idem         map[string][]string // key id and idempotency key -> payments, in the order of their beginning
	events       []pay.SpendEvent
	txs          map[string]string
	counters     map[pay.Counter]x402.Amount
	world        string
	safe         map[string]pay.ChainBlock
	down         bool // Begin and Record fail with ErrUnavailable
	restore      *pay.Restore
	pause        *pay.Pause
	deployments  []string
	// mostFound is the most that one step of reconciling brought.
	mostFound int
}

func newMemStore() *memStore {
	return &memStore{
		keys: map[string]pay.Key{}, secrets: map[string]string{}, orgs: map[string]pay.Organization{},
		walletSK: map[string][]byte{}, payments: map[string]*pay.Payment{}, idem: map[string][]string{},
		txs: map[string]string{}, counters: map[pay.Counter]x402.Amount{}, safe: map[string]pay.ChainBlock{},
	}
}

func (m *memStore) lock() func() { m.mu.Lock(); return m.mu.Unlock }

// crash is what opening the store again after a kill does: no lease survives.
func (m *memStore) crash() {
	defer m.lock()()
	for _, p := range m.payments {
		if p.Lease.Owner != "" {
			p.Lapse()
		}
	}
}

func (m *memStore) CreateKey(_ context.Context, k pay.NewKey) (pay.Key, error) {
	defer m.lock()()
	if _, ok := m.secrets[k.Secret]; ok {
		return pay.Key{}, pay.ErrKeyExists
	}
	if k.OrganizationID != "" {
		org, known := m.orgs[k.OrganizationID]
		if !known || k.Plan != "" {
			org = pay.Organization{ID: k.OrganizationID, Plan: k.Plans.Of(k.Plan).Name, Created: k.Created}
		}
		m.orgs[k.OrganizationID] = org
	}
	m.keys[k.ID], m.secrets[k.Secret] = k.Key, k.ID
	return k.Key, nil
}

func (m *memStore) KeyBySecret(_ context.Context, s string) (pay.Key, error) {
	defer m.lock()()
	id, ok := m.secrets[s]
	if !ok {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	return m.keys[id], nil
}

func (m *memStore) Key(_ context.Context, id string) (pay.Key, error) {
	defer m.lock()()
	k, ok := m.keys[id]
	if !ok {
		return k, pay.ErrKeyNotFound
	}
	return k, nil
}

func (m *memStore) ListKeys(_ context.Context, after string, limit int) ([]pay.Key, error) {
	defer m.lock()()
	var out []pay.Key
	for _, id := range slices.Sorted(maps.Keys(m.keys)) {
		if id > after && len(out) < limit {
			out = append(out, m.keys[id])
		}
	}
	return out, nil
}

func (m *memStore) SetPolicy(_ context.Context, keyID string, pol *pay.Policy) (pay.Key, error) {
	defer m.lock()()
	k, ok := m.keys[keyID]
	if !ok {
		return k, pay.ErrKeyNotFound
	}
	k.Policy = pol
	k.PolicyRevision++
	m.keys[keyID] = k
	return k, nil
}

func (m *memStore) AdoptKey(_ context.Context, keyID string) (pay.Key, error) {
	defer m.lock()()
	k, ok := m.keys[keyID]
	if !ok {
		return k, pay.ErrKeyNotFound
	}
	if !k.Operator {
		k.Operator = true
		k.PolicyRevision++
	}
	m.keys[keyID] = k
	return k, nil
}

func (m *memStore) StopKey(_ context.Context, keyID string, s pay.KeyStop) (pay.Key, error) {
	defer m.lock()()
	k, ok := m.keys[keyID]
	if !ok {
		return k, pay.ErrKeyNotFound
	}
	k, _, err := s.Apply(k)
	if err != nil {
		return pay.Key{}, err
	}
	m.keys[keyID] = k
	return k, nil
}

func (m *memStore) Pause(context.Context) (*pay.Pause, error) {
	defer m.lock()()
	return m.pause, nil
}

func (m *memStore) SetPause(_ context.Context, p *pay.Pause) error {
	defer m.lock()()
	m.pause = p
	return nil
}

func (m *memStore) DeploymentKeys(context.Context) ([]string, error) {
	defer m.lock()()
	return slices.Clone(m.deployments), nil
}

func (m *memStore) SetDeploymentKey(_ context.Context, keyID string) error {
	defer m.lock()()
	m.deployments = append(slices.DeleteFunc(m.deployments, func(id string) bool { return id == keyID }), keyID)
	return nil
}

func (m *memStore) Organization(_ context.Context, id string) (pay.Organization, error) {
	defer m.lock()()
	if o, ok := m.orgs[id]; ok {
		return o, nil
	}
	return pay.Organization{ID: id, Plan: pay.PlanFree}, nil
}

func (m *memStore) CreateWallet(_ context.Context, w pay.NewWallet, limit int) error {
	defer m.lock()()
	if m.liveWallets(w.KeyID) >= limit {
		return pay.ErrWalletLimit
	}
	m.wallets = append(m.wallets, w.Wallet)
	m.walletSK[w.ID] = w.Secret
	return nil
}

func (m *memStore) liveWallets(keyID string) int {
	n := 0
	for _, w := range m.wallets {
		if w.KeyID == keyID && w.Deleted == nil {
			n++
		}
	}
	return n
}

func (m *memStore) WalletCount(_ context.Context, k pay.Key) (int, error) {
	defer m.lock()()
	return m.liveWallets(k.ID), nil
}

func (m *memStore) Wallets(_ context.Context, keyID string) ([]pay.Wallet, error) {
	defer m.lock()()
	var out []pay.Wallet
	for _, w := range m.wallets {
		if w.KeyID == keyID && w.Deleted == nil {
			out = append(out, w)
		}
	}
	return out, nil
}

func (m *memStore) Wallet(_ context.Context, id string) (pay.Wallet, error) {
	defer m.lock()()
	for _, w := range m.wallets {
		if w.ID == id {
			return w, nil
		}
	}
	return pay.Wallet{}, pay.ErrWalletNotFound
}

func (m *memStore) DeleteWallet(_ context.Context, keyID, id string, at time.Time) error {
	defer m.lock()()
	for i, w := range m.wallets {
		if w.ID == id && w.KeyID == keyID && w.Deleted == nil {
			m.wallets[i].Deleted = &at
			return nil
		}
	}
	return pay.ErrWalletNotFound
}

func (m *memStore) WalletSecret(_ context.Context, id string) ([]byte, error) {
	defer m.lock()()
	return m.walletSK[id], nil
}

type memView struct{ *memStore }

func (v memView) ByIdempotencyKey(keyID, key string) (*pay.Payment, error) {
	for _, id := range v.idem[keyID+"/"+key] {
		if p := v.payments[id]; p.Lives() {
			return p.Clone(), nil
		}
	}
	return nil, nil
}

func (v memView) VisitAwaited(keyID string, identity pay.Hash, now time.Time, visit func(string) (bool, error)) error {
	for _, p := range v.sorted() {
		if p.KeyID == keyID && p.Identity == identity && p.Awaited() && p.ValidBefore().Add(pay.RepeatGrace).After(now) {
			if more, err := visit(p.ID); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

func (v memView) Payment(id string) (*pay.Payment, error) { return v.payments[id].Clone(), nil }

func (v memView) CountUnanswered(keyID, host string, now time.Time, _ int) (int, error) {
	n := 0
	for _, p := range v.payments {
		if p.KeyID == keyID && p.Host == host && p.HoldsHost() && p.ValidBefore().After(now) {
			n++
		}
	}
	return n, nil
}

func (v memView) Pause() (*pay.Pause, error) { return v.pause, nil }

func (v memView) PolicyRevision(keyID string) (uint64, error) {
	return v.keys[keyID].PolicyRevision, nil
}

func (v memView) Plan(orgID string) (pay.PlanName, error) {
	return pay.Plans(nil).Of(v.orgs[orgID].Plan).Name, nil
}

func (v memView) Restored() (*pay.Restore, error) { return v.restore, nil }

func (v memView) Attempts(keyID, key string) (n uint64, err error) {
	for _, p := range v.payments {
		if p.KeyID == keyID && p.IdempotencyKey == key {
			n = max(n, p.Attempt)
		}
	}
	return n, nil
}

func (v memView) Nonce(keyID, key string, attempt uint64) x402.Nonce {
	n := x402.Nonce(pay.HashOf(keyID, key))
	binary.BigEndian.PutUint64(n[:], attempt)
	return n
}

func (v memView) Reconciled(keyID, key string) (last *pay.Payment, attempt uint64, err error) {
	for _, p := range v.payments {
		n := binary.BigEndian.Uint64(p.Authorization.Nonce[:])
		if p.Reconciled && n > attempt && p.Authorization.Nonce == v.Nonce(keyID, key, n) {
			last, attempt = p.Clone(), n
		}
	}
	return last, attempt, nil
}

func (v memView) VisitCounters(prefix pay.Counter, visit func(pay.Counter, x402.Amount) bool) error {
	for c, amount := range v.counters {
		if strings.HasPrefix(string(c), string(prefix)) && !amount.IsZero() && !visit(c, amount) {
			break
		}
	}
	return nil
}

func (v memView) Counter(c pay.Counter) (x402.Amount, error) { return v.counters[c], nil }

func (m *memStore) sorted() []*pay.Payment {
	out := make([]*pay.Payment, 0, len(m.payments))
	for _, p := range m.payments {
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

func (m *memStore) apply(changes []pay.CounterChange) {
	for _, c := range changes {
		have := m.counters[c.Counter]
		switch {
		case c.Set:
			have = c.Amount
		case c.Add:
			have, _ = have.Add(c.Amount)
		default:
			var under bool
			if have, under = have.Sub(c.Amount); under {
				panic(fmt.Sprintf("counter %s below zero", c.Counter))
			}
		}
		m.counters[c.Counter] = have
	}
}

func (m *memStore) Begin(_ context.Context, b *pay.Begin) (pay.Begun, error) {
	defer m.lock()()
	if m.down {
		return pay.Begun{}, pay.ErrUnavailable
	}
	begun, changes, err := b.Decide(memView{m})
	if err != nil || !begun.Leased() {
		return begun, err
	}
	m.apply(changes)
	m.payments[begun.Payment.ID] = begun.Payment.Clone()
	if begun.How == pay.Created && b.IdempotencyKey != "" {
		key := b.KeyID + "/" + b.IdempotencyKey
		m.idem[key] = append(m.idem[key], begun.Payment.ID)
	}
	return begun, nil
}

func (m *memStore) Acquire(_ context.Context, id, owner string, now, until time.Time) (*pay.Payment, error) {
	defer m.lock()()
	p, ok := m.payments[id]
	if !ok {
		return nil, pay.ErrPaymentNotFound
	}
	if p.Lease.Live(now) {
		return nil, pay.ErrLeaseHeld
	}
	if p.Lease.Owner != "" {
		p.Lapse()
	}
	p.Grant(owner, until)
	return p.Clone(), nil
}

func (m *memStore) Renew(_ context.Context, id string, fence uint64, until time.Time) error {
	defer m.lock()()
	p := m.payments[id]
	if p == nil || p.Lease.Owner == "" || p.Lease.Fence != fence {
		return pay.ErrLeaseLost
	}
	p.Lease.Until = until
	return nil
}

func (m *memStore) Record(_ context.Context, o pay.Outcome) (*pay.Payment, pay.Effects, error) {
	defer m.lock()()
	old, ok := m.payments[o.PaymentID]
	if !ok {
		return nil, pay.Effects{}, pay.ErrPaymentNotFound
	}
	if o.ClaimedTransaction && m.txs[o.Transaction] != "" && m.txs[o.Transaction] != o.PaymentID {
		return nil, pay.Effects{}, pay.ErrTransactionKnown
	}
	p := old.Clone()
	fx, err := p.Apply(o)
	if err != nil {
		return nil, fx, err
	}
	m.apply(fx.Counters)
	m.payments[p.ID] = p
	if p.State == pay.Settled && p.Transaction != "" && m.txs[p.Transaction] == "" {
		m.txs[p.Transaction] = p.ID
	}
	if fx.Event != nil {
		m.events = append(m.events, *fx.Event)
	}
	if p.Retired {
		key := p.KeyID + "/" + p.IdempotencyKey
		m.idem[key] = slices.DeleteFunc(m.idem[key], func(id string) bool { return id == p.ID })
	}
	return p.Clone(), fx, nil
}

func (m *memStore) Payment(_ context.Context, id string) (*pay.Payment, error) {
	defer m.lock()()
	if p, ok := m.payments[id]; ok {
		return p.Clone(), nil
	}
	return nil, pay.ErrPaymentNotFound
}

func (m *memStore) Payments(_ context.Context, q pay.PaymentQuery) ([]*pay.Payment, error) {
	defer m.lock()()
	var out []*pay.Payment
	all := m.sorted()
	slices.Reverse(all)
	for _, p := range all {
		if p.KeyID == q.KeyID && (q.Label == "" || slices.Contains(p.Labels(), q.Label)) && (q.Before == "" || p.ID < q.Before) && len(out) < q.Limit {
			out = append(out, p.Clone())
		}
	}
	return out, nil
}

func (m *memStore) AllPayments(_ context.Context, q pay.LabelQuery) ([]*pay.Payment, error) {
	defer m.lock()()
	var out []*pay.Payment
	for _, p := range slices.Backward(m.sorted()) {
		labels := p.Labels()
		without := !slices.ContainsFunc(q.Without, func(l string) bool { return slices.Contains(labels, l) })
		if without && (q.Label == "" || slices.Contains(labels, q.Label)) && (q.Before == "" || p.ID < q.Before) && len(out) < q.Limit {
			out = append(out, p.Clone())
		}
	}
	return out, nil
}

func (m *memStore) Due(_ context.Context, now time.Time, limit int) ([]*pay.Payment, error) {
	defer m.lock()()
	var out []*pay.Payment
	for _, p := range m.sorted() {
		if !p.Check.IsZero() && !p.Check.After(now) && len(out) < limit {
			out = append(out, p.Clone())
		}
	}
	return out, nil
}

func (m *memStore) Lapse(_ context.Context, now time.Time, held func(string) bool) (int, error) {
	defer m.lock()()
	n := 0
	for _, p := range m.payments {
		if p.Lease.Owner != "" && !p.Lease.Live(now) && (held == nil || !held(p.ID)) {
			p.Lapse()
			n++
		}
	}
	return n, nil
}

func (m *memStore) CountOpen(_ context.Context, label string) (int, error) {
	defer m.lock()()
	n := 0
	for _, p := range m.payments {
		if slices.Contains(p.Labels(), label) {
			n++
		}
	}
	return n, nil
}

func (m *memStore) SpendEvents(_ context.Context, keyID string, q pay.SpendQuery) ([]pay.SpendEvent, error) {
	defer m.lock()()
	var out []pay.SpendEvent
	behind := q.Before == ""
	for _, e := range slices.Backward(m.events) {
		if e.KeyID != keyID || q.Task != "" && e.Task != q.Task {
			continue
		}
		if behind && len(out) < q.Limit {
			out = append(out, e)
		}
		behind = behind || e.ID == q.Before
	}
	if !behind {
		return nil, pay.ErrEventNotFound
	}
	return out, nil
}

func (m *memStore) Counter(_ context.Context, c pay.Counter) (x402.Amount, error) {
	defer m.lock()()
	return m.counters[c], nil
}

func (m *memStore) AllWallets(_ context.Context, after string, limit int) ([]pay.Wallet, error) {
	defer m.lock()()
	all := slices.SortedFunc(slices.Values(m.wallets), func(a, b pay.Wallet) int { return strings.Compare(a.ID, b.ID) })
	all = slices.DeleteFunc(all, func(w pay.Wallet) bool { return w.ID <= after })
	return all[:min(limit, len(all))], nil
}

func (m *memStore) Restored(context.Context) (*pay.Restore, error) {
	defer m.lock()()
	if m.restore == nil {
		return nil, nil
	}
	r := *m.restore
	r.Scans = maps.Clone(r.Scans)
	return &r, nil
}

func (m *memStore) Reconcile(_ context.Context, s pay.ReconcileStep) (booked []*pay.Payment, err error) {
	defer m.lock()()
	m.mostFound = max(m.mostFound, len(s.Found))
	if m.restore == nil {
		return nil, pay.ErrNotReconciling
	}
	for _, p := range s.Found {
		if slices.ContainsFunc(m.sorted(), func(q *pay.Payment) bool {
			return q.Authorization.From == p.Authorization.From && q.Authorization.Nonce == p.Authorization.Nonce
		}) {
			continue
		}
		fx := p.Booking()
		m.apply(fx.Counters)
		m.payments[p.ID] = p.Clone()
		m.events = append(m.events, *fx.Event)
		booked = append(booked, p.Clone())
	}
	m.restore.Advance(s, len(booked))
	return booked, nil
}

func (m *memStore) AcceptRisk(_ context.Context, a pay.Acceptance) error {
	defer m.lock()()
	if m.restore == nil {
		return pay.ErrNotReconciling
	}
	m.restore.Accepted = &a
	return nil
}

func (m *memStore) EndReconciling(context.Context, time.Time) error {
	defer m.lock()()
	if m.restore == nil {
		return pay.ErrNotReconciling
	}
	m.restore = nil
	return nil
}

func (m *memStore) World(context.Context) (string, error) { return m.world, nil }

func (m *memStore) SetWorld(_ context.Context, w string) (string, error) {
	defer m.lock()()
	if m.world == "" {
		m.world = w
	}
	return m.world, nil
}

func (m *memStore) SafeBlock(_ context.Context, network string) (*pay.ChainBlock, error) {
	defer m.lock()()
	if b, ok := m.safe[network]; ok {
		return &b, nil
	}
	return nil, nil
}

func (m *memStore) KeepSafeBlock(_ context.Context, network string, found *pay.ChainBlock, later pay.ChainBlock) error {
	defer m.lock()()
	now, known := m.safe[network]
	if known == (found != nil) && (!known || now.Hash == found.Hash && later.Number > now.Number) {
		m.safe[network] = later
	}
	return nil
}

func (m *memStore) ForgetSafeBlock(_ context.Context, network string) error {
	defer m.lock()()
	delete(m.safe, network)
	return nil
}

func (m *memStore) ExpireSessions(context.Context, time.Time, int) (int, error) { return 0, nil }

func (m *memStore) Health(context.Context) error { return nil }
func (m *memStore) Kind() string                 { return "memory" }

// checkCounters compares every counter with the reservations that rows still hold.
func (m *memStore) checkCounters() error {
	defer m.lock()()
	want := map[pay.Counter]x402.Amount{}
	prices := map[pay.Counter][]x402.Amount{}
	for _, p := range m.payments {
		if p.Price != "" && p.State == pay.Settled {
			prices[p.Price] = append(prices[p.Price], p.Terms.Amount)
		}
		for _, r := range p.Reservations {
			if !r.Released {
				want[r.Counter], _ = want[r.Counter].Add(r.Amount)
			}
		}
	}
	var bad []string
	for c, have := range m.counters {
		if c.CountsFailures() {
			continue
		}
		if paid := prices[c]; paid != nil {
			if !slices.Contains(paid, have) {
				bad = append(bad, fmt.Sprintf("price %s is %s, paid were %v", c, have, paid))
			}
			continue
		}
		if have != want[c] {
			bad = append(bad, fmt.Sprintf("%s is %s, rows say %s", c, have, want[c]))
		}
	}
	if bad != nil {
		return fmt.Errorf("counters: %s", strings.Join(bad, "; "))
	}
	return nil
}
