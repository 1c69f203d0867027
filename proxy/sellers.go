package proxy

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

// When a seller gets no new payments, and for how long.
const (
	defaultMaxFailures = 5
	firstPause         = 30 * time.Second
	longestPause       = 10 * time.Minute
	// maxFailing bounds the failing sellers that are remembered for a key. A forgotten one is paid
	// again.
	maxFailing = 256
)

// failingError reports that a seller was paid several times in a row and has not delivered.
type failingError struct{ error }

// sellers remembers, for each key by itself, which hosts were paid and did not deliver. A key's
// failures do not count for other keys: they may be that key's doing.
type sellers struct {
	opts  breaker.Options
	now   pay.Clock
	known *perclient.Memory[string, *breaker.Breaker] // by key and host; those without a failure are not there
}

// newSellers allows so many failures in a row. 0 means the default, and a negative number no bound.
func newSellers(most int, now pay.Clock) *sellers {
	if most < 0 {
		most = math.MaxInt
	}
	return &sellers{
		opts: breaker.Options{Failures: cmp.Or(most, defaultMaxFailures), Wait: firstPause, MaxWait: longestPause},
		now:  now, known: perclient.NewMemory[string, *breaker.Breaker](maxFailing),
	}
}

// ready is nil if a new payment may be made, else a *failingError. giveBack, which is never
// nil, says that none was made.
func (s *sellers) ready(keyID, host string) (giveBack func(), err error) {
	b := s.of(keyID, host)
	if b == nil {
		return func() {}, nil
	}
	trying, err := b.Allow(s.now())
	if err != nil {
		return func() {}, &failingError{fmt.Errorf("paid requests to %s: %w", host, err)}
	}
	return func() {
		if trying {
			b.Unused(s.now())
		}
	}, nil
}

// failed counts a paid request that was not delivered, for which the seller is to blame.
func (s *sellers) failed(keyID, host string) (opened bool) {
	b := s.known.GetOrAdd(keyID, strings.ToLower(host), func() *breaker.Breaker { return breaker.New(s.opts) })
	return b.Failed(s.now())
}

// delivered forgets the failures of a seller.
func (s *sellers) delivered(keyID, host string) {
	if b := s.of(keyID, host); b != nil {
		b.Succeeded()
		s.known.Remove(keyID, strings.ToLower(host))
	}
}

func (s *sellers) of(keyID, host string) *breaker.Breaker {
	return s.known.Get(keyID, strings.ToLower(host))
}
