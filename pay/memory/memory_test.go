package memory_test

import (
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/pay/storetest"
)

// opener keeps the store while it is closed.
type opener struct{ store *memory.Store }

func (o *opener) Open(testing.TB) pay.Store {
	o.store.Reopen()
	return o.store
}

func (o *opener) Close(testing.TB) {}

func (o *opener) Kill(testing.TB) {}

func (o *opener) Restore(t testing.TB, taken time.Time) {
	r, err := o.store.Restored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r == nil {
		r = &pay.Restore{Taken: taken}
	}
	r.Again(time.Now())
	o.store.Restore(*r)
}

func (o *opener) Snapshot(testing.TB) func() {
	kept := o.store.Snapshot()
	return func() { o.store = kept }
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(testing.TB) storetest.Opener { return &opener{memory.New(memory.Options{})} })
}
