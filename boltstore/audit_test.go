package boltstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// byOperator makes a context of an operator at the admin endpoint.
func byOperator(t *testing.T) context.Context {
	return pay.WithActor(t.Context(), pay.Operator("ann"))
}

func audited(t *testing.T, d *DB) (list []string) {
	t.Helper()
	entries, err := d.AuditEntries(t.Context(), pay.AuditQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range slices.Backward(entries) {
		if want := uint64(len(entries) - i); e.Number != want {
			t.Errorf("entry %d where %d should be", e.Number, want)
		}
		list = append(list, fmt.Sprint(e.Action, " ", e.KeyID, e.PaymentID))
	}
	return list
}

func keyFor(t *testing.T, d *DB) pay.Key {
	t.Helper()
	k, err := d.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: newID(), Created: noon}, Secret: "pk_" + newID()})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A batch that is rolled back and run again one by one writes each entry once.
func TestAuditOfASpoiledBatch(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	ctx := byOperator(t)
	a, b := keyFor(t, d), keyFor(t, d)
	stop := func(k pay.Key) func() error {
		return func() error {
			_, err := d.StopKey(ctx, k.ID, pay.KeyStop{Do: pay.StopPause, At: noon})
			return err
		}
	}
	release := hold(t, d)
	defer release()
	wait := queue(t, d, stop(a), func() error {
		return d.do(ctx, &op{run: func(b *batch) error {
			if err := storekit.Enter(ctx, b, pay.PlanChanged("org", pay.PlanFree, pay.PlanAgency)); err != nil {
				return err
			}
			return errors.New("bad")
		}})
	}, stop(b))
	release()
	if errs := wait(); errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Fatal(errs)
	}
	got := audited(t, d)
	want := []string{"key.pause " + a.ID, "key.pause " + b.ID}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	checked(t, d)
}

// What could not be written has no entry; what is written after an outage has its own.
func TestAuditInAnOutage(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]func(func() error) error{"nothing written": nothingWritten, "all written": allWritten} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openIn(t, inFolder(t.TempDir()))
			ctx := byOperator(t)
			k, p := keyFor(t, d), begun(t, d, "k")
			broken(d, failure)
			_, err := d.StopKey(ctx, k.ID, pay.KeyStop{Do: pay.StopRevoke, At: noon})
			wantError(t, err, pay.ErrUnavailable)
			wantError(t, d.SetPause(ctx, &pay.Pause{At: noon}), pay.ErrUnavailable)
			_, _, err = d.Record(ctx, pay.Outcome{
				PaymentID: p.ID, Fence: p.Lease.Fence, At: p.ValidBefore().Add(pay.RepeatGrace), Release: true, Verdict: pay.VerdictVoid,
				Resolution: &pay.Resolution{At: noon, As: pay.Void, Reason: "nothing came"},
			})
			wantError(t, err, pay.ErrQueued)
			repaired(t, d)
			want := []string{"payment.resolve k" + p.ID}
			if k, err := d.Key(t.Context(), k.ID); err != nil {
				t.Fatal(err)
			} else if k.Revoked() { // the commit had reached the disk
				want = append([]string{"key.revoke " + k.ID}, want...)
			}
			if got := audited(t, d); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			checked(t, d)
		})
	}
}

// Check notices an entry that its lists do not have, and the other way round.
func TestCheckOfTheAudit(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *batch) error{
		"not listed": func(b *batch) error {
			return b.delete(auditOfBucket, joinKey("key", "k", encodeNumber(1)))
		},
		"listed too often": func(b *batch) error {
			return b.put(auditOfBucket, joinKey("key", "another", encodeNumber(1)), nil)
		},
		"unreadable": func(b *batch) error { return b.put(auditBucket, []byte(encodeNumber(7)), []byte("x")) },
	} {
		d := openIn(t, inFolder(t.TempDir()))
		err := d.do(t.Context(), &op{run: func(b *batch) error {
			if err := storekit.Enter(byOperator(t), b, pay.KeyCreated(pay.Key{ID: "k"})); err != nil {
				return err
			}
			return spoil(b)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(t.Context()); err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}
