package dashboard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadingTakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := throttle{reading: make(chan struct{}, 2), queues: map[string]*readQueue{}}
		leave, err := d.read(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.read(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an organization reads twice at a time: %v", err)
		}
		other, err := d.read(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		short, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.read(short, "c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("more read than may: %v", err)
		}
		served := make(chan string, waiting)
		for range waiting - 1 {
			go func() {
				leave, err := d.read(t.Context(), "a")
				served <- fmt.Sprint(err)
				if err == nil {
					leave()
				}
			}()
		}
		synctest.Wait()
		var many *tooManyError
		if _, err := d.read(t.Context(), "a"); !errors.As(err, &many) {
			t.Errorf("a queue without an end: %v", err)
		}
		leave()
		other()
		for range waiting - 1 {
			if got := <-served; got != "<nil>" {
				t.Error(got)
			}
		}
		synctest.Wait()
		if len(d.queues) != 0 || len(d.reading) != 0 {
			t.Errorf("%d lines and %d readers are left", len(d.queues), len(d.reading))
		}
	})
}
