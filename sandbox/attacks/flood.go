package attacks

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
	floodTries        = "one address makes keys as fast as it can"
	registrationTries = "somebody on another machine makes keys"
	failingTries      = "one key has payments fail as fast as it can"
)

const (
	// mostFlood bounds the limits that a flood tries to exceed.
	mostFlood = 1000
	// flooders is the number of its clients.
	flooders = 8
	// spare is the number of requests beyond the limit after which a flood counts as a success.
	spare = 20
	// floodTime bounds a flood.
	floodTime = 2 * time.Minute
)

// flood makes requests from several clients until one of them is refused, or until they are more
// than a limit of perMinute allows. A limit may be one of each clock minute, so it allows twice as
// many when a minute ends. The allowed number grows with the time. try reports whether its request
// was refused. flood returns the number of requests that were not, and their time; refused
// is false when there were too many.
func flood(perMinute int, try func(n int64) (refused bool)) (made int64, took time.Duration, refused bool) {
	var (
		all     sync.WaitGroup
		tried   atomic.Int64
		passed  atomic.Int64
		over    atomic.Bool
		began   = time.Now()
		tooMany = func() bool {
			return float64(passed.Load()) > float64(perMinute)*(2+time.Since(began).Minutes())+spare
		}
	)
	for range flooders {
		all.Go(func() {
			for !over.Load() && !tooMany() {
				if try(tried.Add(1)) {
					over.Store(true)
				} else {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	return passed.Load(), time.Since(began).Round(time.Millisecond), over.Load()
}

// register makes a key as a stranger would.
func (e *examination) register(ctx context.Context) (answer, error) {
	return e.browse(ctx, http.MethodPost, "/api-keys", "", http.Header{"Content-Type": {"application/json"}})
}

// keyFlood makes more keys than an address may in a minute.
func keyFlood(ctx context.Context, e *examination) (outcome, error) {
	rate := e.main.yours.keyRate
	switch {
	case e.main.yours.registrationOff:
		return e.registrationIsOff(ctx)
	case rate == 0:
		return off("one address may make any number of keys (key_rate)"), nil
	case rate > mostFlood:
		return off("one address may make %d keys a minute, which is as good as any number (key_rate)", rate), nil
	}
	ctx, stop := context.WithTimeout(ctx, floodTime)
	defer stop()
	type end struct {
		got answer
		err error
	}
	ends := make(chan end, flooders)
	made, took, refused := flood(rate, func(int64) bool {
		got, err := e.register(ctx)
		if err == nil && got.code == http.StatusCreated {
			return false
		}
		ends <- end{got, err}
		return true
	})
	if !refused {
		return failed([]string{fmt.Sprintf("%d keys were made in %s", made, took)}, floodTries), nil
	}
	last := <-ends
	switch {
	case last.err != nil:
		return outcome{}, last.err
	case last.got.code != http.StatusTooManyRequests:
		return outcome{}, errors.New("POST /api-keys: " + last.got.status)
	case last.got.header.Get("Retry-After") == "":
		return failed([]string{"the 429 has no Retry-After"}, floodTries), nil
	}
	return held("%s: 429 after %d", floodTries, made), nil
}

// openRegistration makes a key as a stranger would.
func openRegistration(ctx context.Context, e *examination) (outcome, error) {
	y := e.main.yours
	switch {
	case y.registrationOff:
		return e.registrationIsOff(ctx)
	case len(y.exposed) == 0:
		return held("%s: your API listens on loopback only", registrationTries), nil
	}
	got, err := e.register(ctx)
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
	got, err := e.register(ctx)
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
	ctx, stop := context.WithTimeout(ctx, floodTime)
	defer stop()
	var last atomic.Pointer[hostile.Result]
	made, took, refused := flood(slices.Min(bounds), func(n int64) bool {
		order := hostile.Order{ID: firstOrder + uint64(n)%firstOrder, Key: fmt.Sprint("failing-", n)}
		got := one.customer.Buy(ctx, one.world.SellerURL, hostile.PayerDoor, order)
		if got.Status == http.StatusPaymentRequired && !strings.Contains(got.Reason, "policy") {
			return false
		}
		last.Store(&got)
		return true
	})
	if !refused {
		return failed([]string{fmt.Sprintf("%d payments were refused in %s, and more would be", made, took)}, failingTries), nil
	}
	switch got := last.Load(); {
	case got.Status == http.StatusPaymentRequired:
		return held("%s: your limits end it after %d", failingTries, made), nil
	case got.Status != http.StatusTooManyRequests:
		return outcome{}, fmt.Errorf("after %d payments: %s", made, got)
	}
	if took, err := e.healthTime(ctx); err != nil {
		return failed([]string{fmt.Sprintf("afterwards, GET /health: %v after %s", err, took)}, failingTries), nil
	}
	return held("%s: 429 after %d", failingTries, made), nil
}
