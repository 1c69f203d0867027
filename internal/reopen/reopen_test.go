package reopen

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Pauses grow, errors are told once, and the outage ends with the first success.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const second = time.Second
		var took []time.Duration
		var told []string
		last := time.Now()
		o := Begin(t.Context(), errors.New("locked"), func(context.Context) error {
			took, last = append(took, time.Since(last)), time.Now()
			return []error{errors.New("locked"), errors.New("gone"), errors.New("gone"), nil}[len(took)-1]
		}, func(err error) { told = append(told, err.Error()) })
		time.Sleep(time.Hour)
		o.Stop()
		if want := []time.Duration{second, 2 * second, 4 * second, 8 * second}; !slices.Equal(took, want) || !slices.Equal(told, []string{"gone"}) || o.Cause().Error() != "gone" {
			t.Errorf("%v, want %v; told %v; %v", took, want, told, o.Cause())
		}
	})
}

// The longest pause is a minute. Stop ends a pause, and waits for an attempt.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts, ended := 0, false
		o := Begin(t.Context(), errors.New("locked"), func(ctx context.Context) error {
			if attempts++; attempts == 9 {
				<-ctx.Done()
				time.Sleep(time.Second)
				ended = true
			}
			return errors.New("locked")
		}, func(error) { t.Error("the same error was told again") })
		time.Sleep((1 + 2 + 4 + 8 + 16 + 32 + 60 + 60 + 60) * time.Second)
		synctest.Wait()
		if o.Stop(); attempts != 9 || !ended {
			t.Errorf("%d attempts, %t", attempts, ended)
		}
		o = Begin(t.Context(), errors.New("locked"), func(context.Context) error { t.Error("an attempt after the end"); return nil }, nil)
		o.Stop()
	})
}
