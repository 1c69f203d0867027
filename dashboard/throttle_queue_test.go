package dashboard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadingTakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := throttle{reading: newReading(2)}
		for _, org := range []string{"a", "b"} {
			if _, err := d.read(t.Context(), org); err != nil {
				t.Fatal(err)
			}
		}
		waits := func(org string) {
			t.Helper()
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := d.read(short, org); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s reads: %v", org, err)
			}
		}
		waits("a")
		waits("c")
		if _, err := d.read(t.Context(), "c"); !isTooMany(err) {
			t.Errorf("waits without an end: %v", err)
		}
		d = throttle{reading: newReading(2)}
		leave, err := d.read(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		waits("a") // though there is room for another organization
		leave()
		if _, err := d.read(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
}

func isTooMany(err error) bool {
	_, ok := errors.AsType[*tooManyError](err)
	return ok
}
