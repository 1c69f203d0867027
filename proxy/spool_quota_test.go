package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
)

// roomy returns a transport whose rooms hold 1 MiB in memory and 4 MiB in files.
func roomy(t *testing.T) (*world, *Transport) {
	w := newWorld(t)
	return w, w.transport(nil, TransportOptions{PayOptions: PayOptions{
		MaxReplay: 128 << 10, MaxReplayTotal: 1 << 20, MaxSpool: 512 << 10, MaxSpoolTotal: 4 << 20, SpoolDir: t.TempDir(),
	}})
}

// fill has the key send uploads that a seller takes and does not answer, until
// they take no more room. goOn has them answered.
func (w *world) fill(tr *Transport) (goOn func()) {
	w.T.Helper()
	arrived, answer := make(chan struct{}), make(chan struct{})
	s := proxytest.NewSeller(w.T, func(s *proxytest.Seller) {
		s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			arrived <- struct{}{}
			<-answer
			rw.WriteHeader(http.StatusNoContent)
		}
	})
	const uploads = 14 // of 7 MiB in all, and the rooms are 5
	var ended sync.WaitGroup
	for range uploads {
		ended.Go(func() {
			if a := w.send(tr, w.Key, proxytest.Request(w.T, "POST", s.URL+"/upload", bytes.NewReader(make([]byte, 512<<10)))); a.StatusCode != http.StatusNoContent {
				w.T.Errorf("%d %s", a.StatusCode, a.Text)
			}
		})
	}
	for range uploads {
		<-arrived
	}
	goOn = sync.OnceFunc(func() {
		close(answer)
		ended.Wait()
	})
	w.T.Cleanup(goOn)
	return goOn
}

// A key's uploads leave the other keys their room.
func TestUploadsOfOneKey(t *testing.T) {
	t.Parallel()
	w, tr := roomy(t)
	s := proxytest.NewSeller(t)
	other, _ := w.NewKey()
	goOn := w.fill(tr)
	for _, size := range []int{100, 200 << 10, 500 << 10} {
		data := strings.Repeat("x", size)
		a := w.send(tr, other, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader(data)))
		a.Paid(t)
		if a.Text != "paid:POST:"+data {
			t.Errorf("%d bytes came back changed", len(a.Text))
		}
	}
	// A request with a small body is paid for this key as well.
	w.send(tr, w.Key, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader(strings.Repeat("y", 64<<10)))).Paid(t)
	goOn()
	proxytest.Eventually(t, "everything is given back", func() bool {
		p := tr.spool
		return p.guaranteed.used.Load() == 0 && p.inMemory.used.Load() == 0 && p.onDisk.used.Load() == 0
	})
	s.Expect(4, 4, 4)
}

// While there is no room for its body, a request that was paid before must not bring the
// seller's challenge, which its client might pay by itself.
func TestRepeatWithoutRoom(t *testing.T) {
	t.Parallel()
	w, tr := roomy(t)
	s := proxytest.NewSeller(t)
	data := strings.Repeat("z", 500<<10)
	buy := func() proxytest.Answer {
		return w.send(tr, w.Key, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader(data), "Idempotency-Key", "one"))
	}
	id := buy().Paid(t)
	w.Closed(id)
	goOn := w.fill(tr)
	buy().Short(t, DeclinedOverloaded)
	goOn()
	again := buy() // the same payload, which this seller takes once
	again.Declined(t, DeclinedBefore, false)
	if again.Header.Get(HeaderPayment) != id {
		t.Errorf("not payment %s: %v", id, again.Header)
	}
	s.Expect(3, 2, 1)
}
