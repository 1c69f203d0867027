package boltstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

// Sequences that once cost money, or could have, and that need this store to show.

// overtaken is a store that holds up its first Begin.
type overtaken struct {
	*DB
	begins       atomic.Int32
	held, letOff chan struct{}
}

func (o *overtaken) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	if o.begins.Add(1) == 1 {
		close(o.held)
		<-o.letOff
	}
	return o.DB.Begin(ctx, b)
}

// moody is a wallet provider that fails to sign while it is told to.
type moody struct {
	pay.Wallets
	fails atomic.Bool
}

func (m *moody) Sign(ctx context.Context, w pay.Wallet, msg pay.Message) (x402.Signature, error) {
	if m.fails.Load() {
		return x402.Signature{}, &pay.SignerError{Provider: "moody", Detail: "is out of order", Unsigned: true}
	}
	return m.Wallets.Sign(ctx, w, msg)
}

// A call is overtaken by its duplicate, which cannot be signed: the duplicate is void and, by its
// id, the newest attempt under the idempotency key. A repeat that is judged by it pays a second
// time.
func TestRepeatOfACallThatItsDuplicateOvertook(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := openIn(t, inFolder(t.TempDir()))
	store := &overtaken{DB: d, held: make(chan struct{}), letOff: make(chan struct{})}
	wallets := &moody{Wallets: signer.NewLocal(d)}
	w := paytest.NewWorld(t, pay.Options{Store: store, Wallets: wallets})
	payer := w.Payer
	key, _ := w.NewKey(books.KeyRequest{})
	request := paytest.Proxied(t, key, "https://api.example.com/x", "1000")
	request.IdempotencyKey = "order-1"
	type opened struct {
		*pay.Attempt
		err error
	}
	first := make(chan opened, 1)
	go func() {
		a, err := payer.Open(ctx, request)
		first <- opened{a, err}
	}()
	<-store.held
	wallets.fails.Store(true)
	_, err := payer.Open(ctx, request)
	duplicate, ok := errors.AsType[*pay.FailedError](err)
	if !ok || duplicate.Payment.State != pay.Void {
		t.Fatalf("the duplicate got %v", err)
	}
	wallets.fails.Store(false)
	close(store.letOff)
	paid := <-first
	if paid.err != nil {
		t.Fatal(paid.err)
	}
	if duplicate.Payment.ID <= paid.Payment().ID {
		t.Fatal("the duplicate's id is not the newer one")
	}
	paid.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: "0x" + strings.Repeat("7", 64)})
	paid.Finish(false) // the answer is lost on its way

	repeat, err := payer.Open(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	repeat.Finish(true)
	if repeat.Payment().ID != paid.Payment().ID || repeat.Payload().Header() != paid.Payload().Header() {
		t.Errorf("the repeat pays again: %s after %s, which is settled", repeat.Payment().ID, paid.Payment().ID)
	}
}

// A refused attempt settles late, after it was given up and a further one under its idempotency key
// has become void. The key must stand for the one that moved money, not for the last one.
func TestRepeatOfALateSettlementBehindAVoidAttempt(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	ctx := t.Context()
	attempt := func() *pay.Begin {
		b := call("k")
		b.IdempotencyKey, b.New.IdempotencyKey = "order-1", "order-1"
		b.Fingerprint = pay.HashOf("order-1")
		b.New.Fingerprint = b.Fingerprint
		return b
	}
	end := func(v pay.Verdict) *pay.Payment {
		begun, err := d.Begin(ctx, attempt())
		if err != nil || begun.How != pay.Created {
			t.Fatalf("%+v, %v", begun, err)
		}
		p, _, err := d.Record(ctx, pay.Outcome{PaymentID: begun.Payment.ID, Fence: 1, At: noon, Verdict: v, Reason: "test", Release: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	refused := end(pay.VerdictRefused)
	leased, err := d.Acquire(ctx, refused.ID, "recovery", noon, noon.Add(pay.LeaseTime))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Record(ctx, pay.Outcome{
		PaymentID: refused.ID, Fence: leased.Lease.Fence, At: noon, Verdict: pay.VerdictRefusedExpired, Release: true,
	}); err != nil {
		t.Fatal(err)
	}
	end(pay.VerdictVoid)
	end(pay.VerdictVoid)
	late := settlement(refused)
	late.Fence = 0
	late.Release = false
	late.Signature = nil
	if _, _, err := d.Record(ctx, late); err != nil {
		t.Fatal(err)
	}
	begun, err := d.Begin(ctx, attempt())
	if err != nil || begun.How != pay.Stored || begun.Payment.ID != refused.ID {
		t.Errorf("the repeat is %+v, %v; want the payment %s", begun, err, refused.ID)
	}
	checked(t, d)
}

// An outage ends half way: the renewals that were written then are done with, and later
// ones must be kept anew. A renewal that is promised and lost hands the payment to another
// sender while the first one goes on.
func TestRenewalAfterHalfAResume(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	ctx := t.Context()
	held, other := begun(t, d, "k"), begun(t, d, "k")
	broken(d, nothingWritten)
	if err := d.Renew(ctx, held.ID, 1, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for range maxBatch { // so that what is kept takes two commits
		_, _, err := d.Record(ctx, pay.Outcome{PaymentID: other.ID, Fence: 1, At: noon, Note: "seen"})
		wantError(t, err, pay.ErrQueued)
	}
	// The disk takes one commit and fails again.
	var commits atomic.Int32
	half := func(commit func() error) error {
		if commits.Add(1) == 1 {
			return commit()
		}
		return errDisk
	}
	d.hooks.commit.Store(&half)
	d.hooks.reopen.Store(nil)
	eventually(t, "half a resume", func() bool { return commits.Load() >= 2 })
	if err := d.Renew(ctx, held.ID, 1, noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	repaired(t, d)
	p, err := d.Payment(ctx, held.ID)
	if err != nil || !p.Lease.Until.Equal(noon.Add(time.Hour)) {
		t.Errorf("the lease ends %s, promised was %s (%v)", p.Lease.Until, noon.Add(time.Hour), err)
	}
	checked(t, d)
}
