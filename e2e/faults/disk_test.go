package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
)

// scarce is less than purser keeps free for outcomes.
const scarce = 1 << 20

// notPaid fails the test unless an order was refused because the store is short of room, and nothing was signed.
func notPaid(t *testing.T, in *installation, c *hostile.Customer, r hostile.Result, payments int) {
	t.Helper()
	if r.Done || r.Status != http.StatusServiceUnavailable {
		t.Errorf("answered %s", r)
	}
	books, _ := in.account(t, c)
	if len(books.Payments) != payments {
		t.Errorf("%d payments, want %d: %+v", len(books.Payments), payments, books.Payments)
	}
}

// Without room nothing new is begun; with room it goes on.
func TestTheDiskIsFullBeforeAPayment(t *testing.T) {
	t.Parallel()
	for _, door := range hostile.Doors() {
		t.Run(string(door), func(t *testing.T) {
			t.Parallel()
			in := install(t, newGround(t))
			customer := in.enroll(t)
			in.free.Store(scarce)
			time.Sleep(1100 * time.Millisecond) // a reading is good for a second
			notPaid(t, in, customer, customer.Buy(bounded(t), in.world.SellerURL, door, hostile.Order{ID: 100, Key: "a"}), 0)
			in.free.Store(1 << 40)
			process.Eventually(t, patience, func() string {
				if r := customer.Buy(bounded(t), in.world.SellerURL, door, hostile.Order{ID: 100, Key: "a"}); !r.Done {
					return r.String()
				}
				return ""
			})
			in.settle(t, customer)
			in.audit(t, customer)
		})
	}
}

// The disk fills up while a payload is on its way: the outcome lands all the same, repeats are served, and nothing new
// is begun until there is room.
func TestTheDiskFillsUpDuringASend(t *testing.T) {
	t.Parallel()
	for _, door := range hostile.Doors() {
		for name, lost := range map[string]bool{"answered": false, "answer lost": true} {
			t.Run(string(door)+"/"+name, func(t *testing.T) {
				t.Parallel()
				in := install(t, newGround(t))
				customer := in.enroll(t)
				full := func() {
					in.free.Store(scarce)
					time.Sleep(1100 * time.Millisecond)
				}
				in.world.Facilitator.Meet(hostile.FacilitatorFault{On: hostile.Settle, Do: func(c *hostile.Call) {
					full()
					if a := c.Serve(); !lost {
						c.Send(a)
						return
					}
					c.Reset()
				}})
				in.world.Seller.Meet(hostile.SellerFault{On: hostile.Paid, Do: func(v *hostile.Visit) {
					full()
					if tx, _ := v.Settle(); !lost {
						v.Deliver(v.Receipt(tx))
						return
					}
					v.Reset()
				}})
				buy := func(order uint64, key string) hostile.Result {
					return customer.Buy(bounded(t), in.world.SellerURL, door, hostile.Order{ID: order, Key: key})
				}
				if r := buy(100, "a"); r.Done == lost {
					t.Errorf("answered %s", r)
				}
				notPaid(t, in, customer, buy(101, "b"), 1)
				if r := buy(100, "a"); door == hostile.PayerDoor && !r.Done {
					t.Errorf("the repeat was answered %s", r)
				}
				books, ledger := in.account(t, customer)
				if len(ledger.Transfers) != 1 || door == hostile.PayerDoor && len(books.Events) != 1 {
					t.Errorf("books %+v, ledger %+v", books, ledger)
				}
				in.free.Store(1 << 40)
				process.Eventually(t, patience, func() string {
					if r := buy(101, "b"); !r.Done {
						return r.String()
					}
					return ""
				})
				in.settle(t, customer)
				in.audit(t, customer)
			})
		}
	}
}
