package faults

import (
	"fmt"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
)

// limit sets how large a file the program may write; what goes beyond fails, as on a full disk.
func (c *child) limit(t *testing.T, bytes uint64) {
	t.Helper()
	if err := unix.Prlimit(c.Cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Error(err)
	}
}

// The disk is full from the moment that the money has moved: the customer that paid gets its answer, nothing new is
// begun, /health says why, and when there is room the outcome is written and work goes on.
func TestTheDiskIsFullWhenTheMoneyHasMoved(t *testing.T) {
	t.Parallel()
	p := startChild(t, newGround(t), childPatience)
	customer := p.enroll(t)
	p.world.Facilitator.Meet(hostile.FacilitatorFault{On: hostile.Settle, Do: func(c *hostile.Call) {
		a := c.Serve()
		p.limit(t, 0)
		c.Send(a)
	}})
	buy := func(order uint64, door hostile.Door) hostile.Result {
		return customer.Buy(bounded(t), p.world.SellerURL, door, hostile.Order{ID: order})
	}
	if r := buy(100, hostile.PayerDoor); !r.Done {
		t.Errorf("answered %s", r)
	}
	for _, door := range hostile.Doors() {
		if r := buy(101, door); r.Status != http.StatusServiceUnavailable {
			t.Errorf("%s answered %s", door, r)
		}
	}
	process.Eventually(t, patience, func() string {
		if got, err := process.Ask(t.Context(), http.DefaultClient, http.MethodGet, p.URL("/health"), ""); err != nil || got.Status != http.StatusServiceUnavailable {
			return fmt.Sprintf("/health answers %+v, %v", got, err)
		}
		return ""
	})
	after, err := hostile.ReadLedger(bounded(t), p.ground.chain, customer.Wallet)
	if err != nil || len(after.Transfers) != 1 {
		t.Errorf("transfers %+v, %v", after.Transfers, err)
	}
	p.limit(t, unix.RLIM_INFINITY)
	process.Eventually(t, patience, func() string {
		if r := buy(101, hostile.PayerDoor); !r.Done {
			return r.String()
		}
		return ""
	})
	if ledger := p.audit(t, customer, nil); len(ledger.Transfers) != 2 {
		t.Errorf("transfers %+v", ledger.Transfers)
	}
}
