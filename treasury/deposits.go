package treasury

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	// depositTime bounds the reading of transfers for a list of deposits. Block times come on top.
	depositTime = 6 * time.Second
	// depositStep is the number of blocks that are asked for first. The RPC's answers change it.
	depositStep = 2000
)

// Deposit is a transfer to a wallet.
type Deposit struct {
	Transfer
	Time time.Time // of its block; zero: the RPC did not tell
}

// Deposits lists transfers to a wallet.
type Deposits struct {
	Asset x402.Asset
	List  []Deposit // newest first
	// Since is the time from which on all of them are listed. Partial: the RPC told no more in time, or
	// there are too many.
	Since   time.Time
	Partial bool
}

// Deposits reads which transfers to a wallet the chain has had since a time, the newest first, at most
// a number of them, up to the newest safe block. It reads for some seconds at most, and returns what
// it has by then. ErrNoAddress, ErrNoChain.
func (t Treasury) Deposits(ctx context.Context, w pay.Wallet, since time.Time, most int) (d Deposits, err error) {
	n, ok := t.Network(w.Network)
	past, tells := t.Chain.(ChainHistory)
	switch {
	case w.Address == nil:
		return d, pay.ErrNoAddress
	case !ok || !tells:
		return d, pay.ErrNoChain
	}
	d.Asset = whole(n)
	reading, cancel := context.WithTimeout(ctx, depositTime)
	defer cancel()
	for _, a := range n.Assets {
		one := Deposits{Asset: a}
		if err = t.payer.CheckChain(reading, n, a); err == nil {
			err = one.read(reading, past, n, *w.Address, since, most, t.Clock())
		}
		if err != nil {
			break
		}
		d.add(one, most)
	}
	if errors.Is(err, pay.ErrUnwatched) {
		err = fmt.Errorf("%w: %w", pay.ErrNoChain, err)
	}
	if err != nil {
		return Deposits{}, fmt.Errorf("reading the deposits of wallet %s: %w", w.ID, err)
	}
	d.tellTimes(ctx, past, n)
	if k := len(d.List); d.Partial && k == most && !d.List[k-1].Time.IsZero() {
		d.Since = d.List[k-1].Time
	}
	return d, nil
}

// add puts in the deposits of another token.
func (d *Deposits) add(one Deposits, most int) {
	d.List = append(d.List, one.List...)
	slices.SortStableFunc(d.List, func(a, b Deposit) int { return cmp.Or(cmp.Compare(b.Block, a.Block), cmp.Compare(b.Index, a.Index)) })
	if d.Partial = d.Partial || one.Partial || len(d.List) > most; len(d.List) > most {
		d.List = d.List[:most]
	}
	if d.Since.Before(one.Since) {
		d.Since = one.Since
	}
}

// read lists transfers from the newest block down. It fails only if it can list nothing at all.
func (d *Deposits) read(ctx context.Context, past ChainHistory, n x402.Network, to x402.Address, since time.Time, most int, now time.Time) error {
	head, err := past.LastBefore(ctx, n, now.AddDate(1000, 0, 0))
	if err != nil {
		return err
	}
	low, err := past.LastBefore(ctx, n, since)
	if err != nil {
		return err
	}
	d.Since = since
	size := uint64(depositStep)
	for high := head.Number; high > low.Number; {
		first := low.Number + 1
		if high-low.Number > size {
			first = high - size + 1
		}
		part, next, err := transfersTo(ctx, past, TransfersQuery{Network: n, Asset: d.Asset, Wallets: []x402.Address{to}, From: first, To: high, Size: size})
		if err != nil && high == head.Number {
			return err
		}
		for _, t := range slices.Backward(part) {
			if t.To == to && t.From != to {
				d.List = append(d.List, Deposit{Transfer: t})
			}
		}
		switch {
		case len(d.List) > most:
			d.List, d.Partial = d.List[:most], true
			d.Since = between(low, head, d.List[most-1].Block)
			return nil
		case err != nil:
			d.Partial, d.Since = true, between(low, head, high)
			return nil
		}
		high, size = first-1, next
	}
	return nil
}

// transfersTo lists the transfers of a range in the order of the chain, and the size to go on with.
func transfersTo(ctx context.Context, past ChainHistory, q TransfersQuery) (list []Transfer, size uint64, err error) {
	for size = q.Size; q.From <= q.To; {
		a, err := past.Transfers(ctx, q)
		if err != nil {
			return nil, size, err
		}
		if a.Through < q.From {
			return nil, size, errors.New("the RPC does not go on")
		}
		list = append(list, a.Transfers...)
		q.From, q.Size, size = a.Through+1, a.Size, 2*a.Size
	}
	return list, size, nil
}

// between estimates the time of a block between two others.
func between(low, high pay.ChainBlock, number uint64) time.Time {
	all := high.Number - low.Number
	if all == 0 {
		return high.Time
	}
	share := float64(number-low.Number) / float64(all)
	return low.Time.Add(time.Duration(share * float64(high.Time.Sub(low.Time))))
}

// tellTimes asks for the times of the blocks.
func (d *Deposits) tellTimes(ctx context.Context, past ChainHistory, n x402.Network) {
	known := map[uint64]time.Time{}
	for i := range d.List {
		t, asked := known[d.List[i].Block]
		if !asked {
			var err error
			if t, err = past.BlockTime(ctx, n, d.List[i].Block); err != nil {
				t = time.Time{}
			}
			known[d.List[i].Block] = t
		}
		d.List[i].Time = t
	}
}
