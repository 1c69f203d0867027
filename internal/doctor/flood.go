package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
)

const (
	registrationTries = "somebody on another machine makes keys"
	failingTries      = "one key has payments fail as fast as it can"
)

// openRegistration makes a key as a stranger would.
func openRegistration(ctx context.Context, e *examination) (outcome, error) {
	y := e.main.yours
	switch {
	case y.registrationOff:
		return e.registrationIsOff(ctx)
	case len(y.exposed) == 0:
		return held("%s: your API listens on loopback only", registrationTries), nil
	}
	got, err := e.browse(ctx, http.MethodPost, "/api-keys", "", http.Header{"Content-Type": {"application/json"}})
	switch {
	case err != nil:
		return outcome{}, err
	// Another attack makes as many keys as it can.
	case got.code == http.StatusTooManyRequests:
	case got.code != http.StatusCreated:
		return outcome{}, errors.New("POST /api-keys: " + got.status)
	}
	return failed([]string{
		"POST /api-keys: " + got.status, "whoever reaches " + strings.Join(y.exposed, ", ") + " gets as many keys as the clock allows",
		"PURSER_REGISTRATION=off leaves it to you (registration)",
	}, registrationTries), nil
}

// registrationIsOff checks that POST /api-keys is refused when registration is off.
func (e *examination) registrationIsOff(ctx context.Context) (outcome, error) {
	got, err := e.browse(ctx, http.MethodPost, "/api-keys", "", http.Header{"Content-Type": {"application/json"}})
	switch {
	case err != nil:
		return outcome{}, err
	case got.code == http.StatusForbidden || got.code == http.StatusTooManyRequests:
		return held("%s: 403, registration is off", registrationTries), nil
	}
	return failed([]string{"POST /api-keys: " + got.status}, registrationTries), nil
}

// failingFlood sends one key's payments to a facilitator that refuses them, until purser makes no
// more.
func failingFlood(ctx context.Context, e *examination) (outcome, error) {
	bounds := slices.DeleteFunc(e.main.yours.failures[:], func(n int) bool { return n == 0 })
	if len(bounds) == 0 || slices.Min(bounds) > mostFlood {
		return off("a key may have any number of failed payments, or as good as any (failures_per_minute, failures_per_day)"), nil
	}
	one, err := e.enroll(ctx, e.main, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	one.world.Facilitator.Choose = func(c *hostile.Call) (hostile.FacilitatorFault, bool) { return hostile.VerifyRefuses, true }
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	var (
		all   sync.WaitGroup
		tried atomic.Int64
		over  atomic.Pointer[hostile.Result]
		began = time.Now()
		most  = slices.Min(bounds)
	)
	for range flooders {
		all.Go(func() {
			for over.Load() == nil {
				n := tried.Add(1)
				if float64(n) > float64(most)*(1+time.Since(began).Minutes())+flooders+spare {
					return
				}
				got := one.customer.Buy(ctx, one.world.SellerURL, hostile.PayerDoor, hostile.Order{ID: firstOrder + uint64(n)%firstOrder, Key: fmt.Sprint("failing-", n)})
				if got.Status != http.StatusPaymentRequired || strings.Contains(got.Reason, "policy") {
					over.Store(&got)
				}
			}
		})
	}
	all.Wait()
	switch got := over.Load(); {
	case got == nil:
		return failed([]string{fmt.Sprintf("%d payments were refused in %s, and more would be", tried.Load(), time.Since(began).Round(time.Millisecond))}, failingTries), nil
	case got.Status == http.StatusPaymentRequired:
		return held("%s: your limits end it after %d", failingTries, tried.Load()-1), nil
	case got.Status != http.StatusTooManyRequests:
		return outcome{}, fmt.Errorf("after %d payments: %s", tried.Load(), got)
	}
	if took, err := e.healthTime(ctx); err != nil {
		return failed([]string{fmt.Sprintf("afterwards, GET /health: %v after %s", err, took)}, failingTries), nil
	}
	return held("%s: 429 after %d", failingTries, tried.Load()-1), nil
}
