package boltstore

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/pay"
)

// hold keeps the committer busy until the returned function is called, so that what is
// queued meanwhile becomes one batch.
func hold(t *testing.T, d *DB) (release func()) {
	t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	go d.do(context.Background(), &op{run: func(*batch) error { close(busy); <-free; return nil }})
	<-busy
	return sync.OnceFunc(func() { close(free) })
}

// queue runs calls at once and waits until all are queued behind hold.
func queue(t *testing.T, d *DB, calls ...func() error) (wait func() []error) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, len(calls))
	for i, f := range calls {
		all.Go(func() { errs[i] = f() })
	}
	eventually(t, "all are queued", func() bool { return len(d.ops) == len(calls) })
	return func() []error { all.Wait(); return errs }
}

func TestOneOperationSpoilsNoOther(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	ctx := t.Context()
	p := begun(t, d, "k")
	errBad := errors.New("bad")
	release := hold(t, d)
	defer release()
	bad := func(run func(b *batch) error) func() error {
		return func() error {
			return d.do(ctx, &op{run: func(b *batch) error {
				if err := b.put(countersBucket, []byte("garbage"), []byte("1")); err != nil {
					return err
				}
				return run(b)
			}})
		}
	}
	var first, second *pay.Payment
	wait := queue(t, d,
		func() error { b, err := d.Begin(ctx, call("k")); first = b.Payment; return err },
		bad(func(*batch) error { return errBad }),
		func() error { _, _, err := d.Record(ctx, settlement(p)); return err },
		bad(func(*batch) error { panic("at the disco") }),
		func() error { return d.do(ctx, &op{run: func(*batch) error { panic("before writing") }}) },
		func() error { b, err := d.Begin(ctx, call("k")); second = b.Payment; return err },
	)
	release()
	errs := wait()
	if errs[0] != nil || errs[2] != nil || errs[5] != nil {
		t.Fatalf("the good ones: %v", errs)
	}
	wantError(t, errs[1], errBad)
	if errs[3] == nil || errs[4] == nil {
		t.Fatalf("the panics: %v", errs)
	}
	for _, want := range []*pay.Payment{first, second} {
		if got, err := d.Payment(ctx, want.ID); err != nil || got.Lease.Fence != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if n, _ := d.Counter(ctx, "garbage"); !n.IsZero() {
		t.Error("a rolled back write is there")
	}
	if err := d.Health(ctx); err != nil {
		t.Error(err)
	}
	checked(t, d)
}

func TestOneTransactionForMany(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	var commits atomic.Int64
	hook := func(commit func() error) error { commits.Add(1); return commit() }
	d.hooks.commit.Store(&hook)
	release := hold(t, d)
	defer release()
	var calls []func() error
	for range 50 {
		calls = append(calls, func() error { _, err := d.Begin(t.Context(), call("k")); return err })
	}
	wait := queue(t, d, calls...)
	release()
	if err := errors.Join(wait()...); err != nil {
		t.Fatal(err)
	}
	if n := commits.Load(); n != 1 {
		t.Errorf("%d commits", n)
	}
	refusal := call("k")
	refusal.Declined = errors.New("no")
	if _, err := d.Begin(t.Context(), refusal); !errors.Is(err, refusal.Declined) {
		t.Fatal(err)
	}
	if n := commits.Load(); n != 1 {
		t.Error("a refusal was committed")
	}
}

func TestEndedLeasesAreForgotten(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	begun(t, d, "k")
	if _, _, err := d.Record(t.Context(), settlement(begun(t, d, "k"))); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(d.leased); n != 1 {
		t.Errorf("%d leased payments are remembered", n)
	}
}

func TestLeavingBeforeOnesTurn(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	p := begun(t, d, "k")
	release := hold(t, d)
	defer release()
	ctx, leave := context.WithCancel(t.Context())
	b := call("k")
	wait := queue(t, d,
		func() error { _, err := d.Begin(ctx, b); return err },
		func() error { _, _, err := d.Record(ctx, settlement(p)); return err },
	)
	leave()
	for _, err := range wait() {
		wantError(t, err, context.Canceled)
	}
	release()
	eventually(t, "the outcome is written", func() bool {
		got, err := d.Payment(t.Context(), p.ID)
		return err == nil && got.State == pay.Settled
	})
	_, err := d.Payment(t.Context(), b.New.ID)
	wantError(t, err, pay.ErrPaymentNotFound)
	checked(t, d)
}

func TestShortDisk(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(math.MaxUint64)
	o := inFolder(t.TempDir())
	o.MinFree = 1000
	o.FreeSpace = func(string) (uint64, error) { return free.Load(), nil }
	d := openIn(t, o)
	ctx := t.Context()
	p := begun(t, d, "k")
	free.Store(999)
	eventually(t, "the store notices", func() bool { return d.Health(ctx) != nil })
	wantError(t, d.Health(ctx), pay.ErrUnavailable)
	b := call("k")
	_, err := d.Begin(ctx, b)
	wantError(t, err, pay.ErrUnavailable)
	_, err = d.CreateKey(ctx, pay.NewKey{Key: pay.Key{ID: "k"}, Secret: "pk_secret"})
	wantError(t, err, pay.ErrUnavailable)
	if _, _, err := d.Record(ctx, settlement(p)); err != nil {
		t.Fatalf("an outcome: %v", err)
	}
	free.Store(1000)
	eventually(t, "the store goes on", func() bool { return d.Health(ctx) == nil })
	if _, err := d.Begin(ctx, b); err != nil {
		t.Fatal(err)
	}
	checked(t, d)
}
