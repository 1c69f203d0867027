package faults

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
)

// callHeader numbers the calls of an impatient client.
const callHeader = "X-Faults-Call"

// impatient carries purser's calls to its facilitator and RPC, and gives up those that will never be answered as a time
// limit does, but at once, and no others, however busy the machine is.
type impatient struct {
	next http.Transport

	mu      sync.Mutex
	calls   int
	waiting map[string]context.CancelCauseFunc
}

// RoundTrip fails with a timeout if the call is given up.
func (i *impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, give := context.WithCancelCause(r.Context())
	i.mu.Lock()
	i.calls++
	id := strconv.Itoa(i.calls)
	if i.waiting == nil {
		i.waiting = map[string]context.CancelCauseFunc{}
	}
	i.waiting[id] = give
	i.mu.Unlock()
	out := r.Clone(ctx)
	out.Header.Set(callHeader, id)
	resp, err := i.next.RoundTrip(out)
	i.mu.Lock()
	delete(i.waiting, id)
	i.mu.Unlock()
	if err != nil {
		if r.Context().Err() == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		give(nil)
		return nil, err
	}
	resp.Body = &read{resp.Body, give}
	return resp, nil
}

// hung is told of requests that will never be answered.
func (i *impatient) hung(r *http.Request) {
	i.mu.Lock()
	give := i.waiting[r.Header.Get(callHeader)]
	i.mu.Unlock()
	if give != nil {
		give(os.ErrDeadlineExceeded)
	}
}

// CloseIdleConnections is called when purser is done with it.
func (i *impatient) CloseIdleConnections() { i.next.CloseIdleConnections() }

// read is an answer's body, with what ends its call.
type read struct {
	io.ReadCloser
	end context.CancelCauseFunc
}

func (b *read) Close() error {
	defer b.end(nil)
	return b.ReadCloser.Close()
}

// visits are the requests that purser is serving, by the key that they come with.
type visits struct {
	mu   sync.Mutex
	open map[*http.Request]string
}

// enter returns what ends the visit.
func (v *visits) enter(r *http.Request) func() {
	key := r.Header.Get("X-Api-Key")
	if key == "" {
		login := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
		key, _, _ = login.BasicAuth()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		v.open = map[*http.Request]string{}
	}
	v.open[r] = key
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.open, r)
	}
}

// present lists the requests that purser is serving.
func (v *visits) present() []*http.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Keys(v.open))
}
