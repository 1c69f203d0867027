package attacks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/purserpay/purser/sandbox/loopback"
)

const (
	uploadsTries = "one key fills the room for request bodies with uploads that are not answered; another key's POST is paid"
	// uploadTime bounds the whole attack.
	uploadTime = 2 * time.Minute
	// postSize is the size of the other key's request body, in bytes. It is larger than the part
	// that always finds room.
	postSize = 200 << 10
)

// waves lists waves of uploads. The first is larger than all the request bodies that purser keeps
// by default, in memory and in files. The others fill the gaps.
var waves = []struct{ uploads, size int }{{280, 5 << 20}, {48, 1 << 20}, {96, 128 << 10}}

// sink is a seller that accepts uploads and does not answer them before its end.
type sink struct {
	taken chan struct{}
	end   chan struct{}
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	select {
	case s.taken <- struct{}{}:
	case <-s.end:
	case <-r.Context().Done():
	}
	select {
	case <-s.end:
	case <-r.Context().Done():
	}
	w.WriteHeader(http.StatusNoContent)
}

// uploads lets one key's uploads take all the room that they can, on a purser of its own.
func uploads(ctx context.Context, e *examination) (outcome, error) {
	ctx, stop := context.WithTimeout(ctx, uploadTime)
	defer stop()
	p, err := e.launch(ctx, "uploads", "")
	if err != nil {
		return outcome{}, err
	}
	defer p.stop()
	greedy, err := e.enroll(ctx, p, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	other, err := e.enroll(ctx, p, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	s := &sink{taken: make(chan struct{}), end: make(chan struct{})}
	seller, err := loopback.Serve(ctx, loopback.Options{Name: "sink"}, s)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = seller.Close() }()
	var all sync.WaitGroup
	defer all.Wait()
	defer close(s.end)
	wait := 0
	for _, wave := range waves {
		refused := make(chan struct{}, wave.uploads)
		for range wave.uploads {
			all.Go(func() {
				_, _ = greedy.post(ctx, seller.URL()+"/", int64(wave.size))
				refused <- struct{}{}
			})
		}
		for range wave.uploads {
			select {
			case <-s.taken:
				wait++
			case <-refused: // as good as taken
			case <-ctx.Done():
				return outcome{}, ctx.Err()
			}
		}
	}
	got, err := other.post(ctx, other.world.SellerURL+"/buy?id=1", postSize)
	if err == nil && (got.code != http.StatusOK || got.header.Get("Purser-Payment") == "") {
		story := []string{fmt.Sprintf("while %d uploads wait for their answers, a POST of another key: %s %s", wait, got.status,
			got.header.Get("Purser-Declined")+got.header.Get("Purser-Error"))}
		return failed(story, uploadsTries), nil
	}
	return held("%s (%d uploads)", uploadsTries, wait), err
}

// post sends a body of zeros through the proxy.
func (p *player) post(ctx context.Context, target string, size int64) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, io.LimitReader(zeros{}, size))
	if err != nil {
		return answer{}, err
	}
	r.ContentLength = size
	return send(proxied(p.purser, url.User(p.proxied.Key)), r)
}

// zeros is an endless body of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
