package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/x402"
)

// roomy is a proxy whose rooms hold 1 MiB in memory and 4 MiB in files.
func roomy(t *testing.T) *world {
	return newWorld(t, func(s *setup) {
		s.forward.MaxReplay, s.forward.MaxReplayTotal = 128<<10, 1<<20
		s.forward.MaxSpool, s.forward.MaxSpoolTotal, s.forward.SpoolDir = 512<<10, 4<<20, t.TempDir()
	})
}

// other is the agent of another key.
func (w *world) other() *http.Client {
	w.t.Helper()
	key, secret, err := w.books.CreateKey(context.Background(), books.KeyRequest{Label: "other"})
	if err == nil {
		_, err = w.books.CreateWallet(context.Background(), key, "base")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return w.client(url.User(secret))
}

// fill has the world's key send uploads that a seller takes and does not answer, until
// they take no more room. goOn has them answered.
func (w *world) fill() (goOn func()) {
	w.t.Helper()
	arrived, answer := make(chan struct{}), make(chan struct{})
	s := newSeller(w.t, func(s *seller) {
		s.challenge = func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			arrived <- struct{}{}
			<-answer
			rw.WriteHeader(http.StatusNoContent)
		}
	})
	const uploads = 14 // of 7 MiB in all, and the rooms are 5
	ended := make(chan error, uploads)
	for range uploads {
		go func() {
			_, err := do(w.agent(), request(w.t, "POST", s.URL+"/upload", bytes.NewReader(make([]byte, 512<<10))))
			ended <- err
		}()
	}
	for range uploads {
		<-arrived
	}
	goOn = sync.OnceFunc(func() {
		close(answer)
		for range uploads {
			if err := <-ended; err != nil {
				w.t.Error(err)
			}
		}
	})
	w.t.Cleanup(goOn)
	return goOn
}

// One key's uploads leave the other keys their room.
func TestUploadsOfOneKey(t *testing.T) {
	t.Parallel()
	w, s := roomy(t), newSeller(t)
	other := w.other()
	goOn := w.fill()
	for _, size := range []int{100, 200 << 10, 500 << 10} {
		data := strings.Repeat("x", size)
		a := w.do(other, request(t, "POST", s.URL+"/x", strings.NewReader(data)))
		a.paid(t)
		if a.body != "paid:POST:"+data {
			t.Errorf("%d bytes came back changed", len(a.body))
		}
	}
	// What is small is paid for this key as well.
	w.do(w.agent(), request(t, "POST", s.URL+"/x", strings.NewReader(strings.Repeat("y", 64<<10)))).paid(t)
	goOn()
	eventually(t, "everything is given back", func() bool {
		p := w.forward.transport.spool
		return p.sure.used.Load() == 0 && p.inMemory.used.Load() == 0 && p.onDisk.used.Load() == 0
	})
	s.expect(4, 4, 4)
}

// short checks that an answer is a 503 of ours, in which no client finds anything to pay.
func (a answer) short(t *testing.T, reason string) {
	t.Helper()
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get(HeaderError) != reason || a.Header.Get("Retry-After") == "" {
		t.Fatalf("got %d %v, want a 503 for %q: %s", a.StatusCode, a.Header, reason, a.body)
	}
	if _, found, _ := x402.FromResponse(a.Header, []byte(a.body)); found || a.problem(t).Reason != reason {
		t.Fatalf("%v %s", a.Header, a.body)
	}
}

// While there is no room for its body, a request that was paid before must not bring the
// seller's challenge, which its client might pay by itself.
func TestRepeatWithoutRoom(t *testing.T) {
	t.Parallel()
	w, s := roomy(t), newSeller(t)
	data := strings.Repeat("z", 500<<10)
	buy := func() answer {
		return w.do(w.agent(), request(t, "POST", s.URL+"/x", strings.NewReader(data), "Idempotency-Key", "one"))
	}
	id := buy().paid(t)
	w.closed(id)
	goOn := w.fill()
	buy().short(t, DeclinedOverloaded)
	goOn()
	again := buy() // the same payload, which this seller takes once
	again.declined(t, DeclinedNotDelivered, false)
	if again.Header.Get(HeaderPayment) != id {
		t.Errorf("not payment %s: %v", id, again.Header)
	}
	s.expect(3, 2, 1)
}
