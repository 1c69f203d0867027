package pay

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/purserpay/purser/internal/perclient"
)

const (
	// proveTime bounds the time that a call waits for the chain's word on earlier payments.
	proveTime = 3 * time.Second
	// proveAgain is the time after a look that brought no evidence in which there is no other one.
	proveAgain = 2 * time.Second
	// maxProved bounds the payments that one look asks the chain about. It looks for them among the
	// maxProving newest ones of each of maxProvedKeys keys that are not older than provedFor: those before
	// are recovery's.
	maxProved     = 32
	maxProving    = 1000
	provingPage   = 200
	maxProvedKeys = 20
	provedFor     = 2 * MaxValidity
	maxProvers    = 10_000
)

// proving paces the looks for evidence of payments that hold up a call. Calls that come during a look
// wait for its result.
type proving struct {
	looks singleflight.Group
	rests *lru.Cache[string, time.Time] // until when there is no further look
}

func newProving() proving { return proving{rests: perclient.NewCache[string, time.Time](maxProvers)} }

// proveWallet asks the chain about payments from a wallet that are settled by a claim only, and so still
// hold a part of its balance. It reports whether that gave something back.
func (p *Payer) proveWallet(ctx context.Context, w Wallet) bool {
	if open, err := p.WalletOpen(ctx, w); err != nil || open.IsZero() {
		return false
	}
	return p.prove(ctx, walletLook(w), func(ctx context.Context) ([]string, error) {
		lent, err := p.store.WalletKeys(ctx, w.ID, "", maxProvedKeys)
		return append([]string{w.KeyID}, lent...), err
	}, func(row *Payment) bool { return row.WalletID == w.ID && row.State == Settled })
}

// proveForOperator is proveWallet for people, who wait for no rest.
func (p *Payer) proveForOperator(ctx context.Context, w Wallet) {
	p.proving.rests.Remove(walletLook(w))
	p.proveWallet(ctx, w)
}

func walletLook(w Wallet) string { return "wallet/" + w.ID }

// proveHost asks the chain about payments of a key that count as unanswered, because only their receipts
// say that they have settled.
func (p *Payer) proveHost(ctx context.Context, keyID, host string) bool {
	return p.prove(ctx, "host/"+keyID+"/"+host, func(context.Context) ([]string, error) { return []string{keyID}, nil },
		func(row *Payment) bool { return row.Host == host && row.Receipted })
}

// prove asks the chain about the oldest claimed payments of some keys that wants selects. It reports
// whether the chain's word gave something back.
func (p *Payer) prove(ctx context.Context, name string, keys func(context.Context) ([]string, error), wants func(*Payment) bool) bool {
	if p.opts.Chain == nil {
		return false
	}
	if rest, _ := p.proving.rests.Get(name); p.now().Before(rest) {
		return false
	}
	look := p.proving.looks.DoChan(name, func() (any, error) {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), proveTime) // for other callers, too
		defer cancel()
		freed, err := p.proveEach(look, keys, wants)
		if err != nil {
			p.log.WarnContext(ctx, "no look for evidence of claimed payments", "error", err)
		}
		if !freed {
			p.proving.rests.Add(name, p.now().Add(proveAgain))
		}
		return freed, nil
	})
	select {
	case done := <-look:
		return done.Val == true
	case <-ctx.Done():
		return false
	}
}

func (p *Payer) proveEach(ctx context.Context, keys func(context.Context) ([]string, error), wants func(*Payment) bool) (bool, error) {
	list, err := keys(ctx)
	if err != nil {
		return false, fmt.Errorf("listing the keys of a wallet: %w", err)
	}
	var rows []*Payment
	for _, id := range list {
		claimed, err := p.claimed(ctx, id)
		if err != nil {
			return false, err
		}
		rows = append(rows, slices.DeleteFunc(claimed, func(row *Payment) bool { return !wants(row) })...)
	}
	slices.SortFunc(rows, func(a, b *Payment) int { return a.Created.Compare(b.Created) })
	var freed atomic.Bool
	var each errgroup.Group
	each.SetLimit(recoverAtOnce)
	for _, row := range rows[:min(len(rows), maxProved)] {
		each.Go(func() error {
			if p.proveOne(ctx, row) {
				freed.Store(true)
			}
			return nil
		})
	}
	_ = each.Wait() // it has no error
	return freed.Load(), nil
}

// claimed lists the newest claimed payments of a key.
func (p *Payer) claimed(ctx context.Context, keyID string) (list []*Payment, err error) {
	oldest := p.now().Add(-provedFor)
	q := PaymentQuery{KeyID: keyID, Limit: provingPage}
	for range maxProving / provingPage {
		page, err := p.store.Payments(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("listing payments: %w", err)
		}
		for _, row := range page {
			if row.Claimed() {
				list = append(list, row)
			}
		}
		if len(page) < q.Limit || page[len(page)-1].Created.Before(oldest) {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	return list, nil
}

// proveOne asks the chain about a claimed payment. It reports whether the chain's word was recorded. What
// needs the lease beyond that is left to recovery. A look in vain costs the payment's key a turn, and
// without one there is none: a key that invents receipts must not use up the RPC's quota.
func (p *Payer) proveOne(ctx context.Context, row *Payment) bool {
	if p.questions.traces.Wait(row.KeyID, p.now()) > 0 {
		return false
	}
	var o Outcome
	t, err := p.trace(ctx, row)
	if err == nil {
		o = chainOutcome(row, t)
	}
	if !o.Evident {
		p.questions.traces.Take(row.KeyID, 1, p.now())
		return false
	}
	if o.Verdict != VerdictSettled {
		o = Outcome{Evident: true}
	}
	o.PaymentID, o.At = row.ID, p.now().UTC()
	_, err = p.record(ctx, row, o)
	return err == nil
}
