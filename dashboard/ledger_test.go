package dashboard_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// ledger is facilitator and chain in one. It remembers each settlement until it is told to forget
// it.
type ledger struct {
	now      func() time.Time
	mu       sync.Mutex
	balances map[x402.Address]money.Amount
	moved    map[x402.Nonce]string
	down     bool
	slow     time.Duration // of balances
	unclear  bool          // settlements are not confirmed
	amnesia  bool          // no settlement is on the chain
	batch    bool          // one transaction settles all
	settled  int
	// transfers: settlements change balances.
	transfers bool
	past      []treasury.Transfer // a block a minute, the newest is newestBlock
	asked     int                 // for transfers
	deaf      uint64              // transfers of blocks before are not told; 0: all are
}

func (l *ledger) set(change func(*ledger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

func (l *ledger) fund(a x402.Address, micros uint64) {
	l.set(func(l *ledger) { l.balances[a] = money.New(micros) })
}

func (l *ledger) Verify(context.Context, pay.Exchange) (pay.VerifyAnswer, error) {
	return pay.VerifyAnswer{Valid: true}, nil
}

func (l *ledger) Settle(_ context.Context, x pay.Exchange) (pay.SettleAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	auth, _, err := x.Payload.Authorization()
	if err != nil {
		return pay.SettleAnswer{}, err
	}
	if l.unclear {
		return pay.SettleAnswer{}, errors.New("connection reset")
	}
	if !l.batch || l.settled == 0 {
		l.settled++
	}
	tx := fmt.Sprintf("0x%064x", 0xa11ce00000+l.settled)
	l.moved[auth.Nonce] = tx
	if l.transfers {
		have, _ := l.balances[auth.From].Sub(auth.Value)
		l.balances[auth.From] = have
		l.balances[auth.To], _ = l.balances[auth.To].Add(auth.Value)
	}
	return pay.SettleAnswer{Success: true, Transaction: tx, Network: "base"}, nil
}

func (l *ledger) Probe(context.Context) error { return nil }

func (l *ledger) identity() pay.ChainIdentity {
	return pay.ChainIdentity{ChainID: 8453, Genesis: "0x" + strings.Repeat("ab", 32)}
}

func (l *ledger) Identify(context.Context, x402.Network, x402.Asset) (pay.ChainIdentity, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return pay.ChainIdentity{}, errors.New("connection refused")
	}
	return l.identity(), nil
}

func (l *ledger) Balance(ctx context.Context, _ x402.Network, _ x402.Asset, owner x402.Address) (money.Amount, error) {
	l.mu.Lock()
	slow, down, have := l.slow, l.down, l.balances[owner]
	l.mu.Unlock()
	if slow > 0 {
		select {
		case <-ctx.Done():
			return money.Amount{}, ctx.Err()
		case <-time.After(slow):
		}
	}
	if down {
		return money.Amount{}, errors.New("connection refused")
	}
	return have, nil
}

// newestBlock is the last block of the ledger.
const newestBlock = 100_000

func (l *ledger) timeOf(number uint64) time.Time {
	return l.now().Truncate(time.Hour).Add(-time.Duration(newestBlock-number) * time.Minute)
}

func (l *ledger) LastBefore(_ context.Context, _ x402.Network, moment time.Time) (pay.ChainBlock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return pay.ChainBlock{}, errors.New("connection refused")
	}
	number := uint64(newestBlock)
	for ; number > 0 && !l.timeOf(number).Before(moment); number-- {
	}
	return pay.ChainBlock{Number: number, Time: l.timeOf(number)}, nil
}

func (l *ledger) BlockTime(_ context.Context, _ x402.Network, number uint64) (time.Time, error) {
	return l.timeOf(number), nil
}

func (l *ledger) BalanceAt(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address, _ pay.ChainBlock) (money.Amount, error) {
	return l.Balance(ctx, n, a, owner)
}

func (l *ledger) Transfers(_ context.Context, q treasury.TransfersQuery) (a treasury.TransfersAnswer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.deaf > 0 && q.From < l.deaf {
		return a, errors.New("timeout")
	}
	a.Through, a.Size = q.To, q.Size
	slices.SortStableFunc(l.past, func(a, b treasury.Transfer) int { return cmp.Compare(a.Block, b.Block) })
	for _, t := range l.past {
		if t.Block >= q.From && t.Block <= q.To {
			a.Transfers = append(a.Transfers, t)
		}
	}
	return a, nil
}

func (l *ledger) Trace(_ context.Context, q pay.TraceQuery) (pay.Trace, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return pay.Trace{}, errors.New("connection refused")
	}
	tx, used := l.moved[q.Authorization.Nonce]
	used = used && !l.amnesia
	if !used {
		tx = ""
	}
	return pay.Trace{Chain: l.identity(), Used: used, Transaction: tx, SafeUsed: used, SafeLogs: used, SafeTime: l.now()}, nil
}
