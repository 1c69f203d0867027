package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// warmup precedes every measurement. It fills connections and caches, and makes the first request
// of each key.
const warmup = 400 * time.Millisecond

// call makes one request of a client, and fails on an unexpected answer. serial differs between all
// calls of the process. measured is false during the warm-up.
type call func(ctx context.Context, client int, serial uint64, measured bool) error

var serials atomic.Uint64

// load is a number of clients that make requests again and again. Each waits for its answer, and
// then for the pause, if any.
type load struct {
	clients int
	pause   time.Duration
	length  time.Duration // of the measurement; default: the bench's
}

// drive applies a load for a while. It measures the clients and the program under test (nil: none).
// Any failed call makes the measurement fail.
func (b *bench) drive(ctx context.Context, l load, under *child, do call) (measurement, error) {
	pid := under.pid()
	if _, _, err := l.put(ctx, warmup, false, do); err != nil {
		return measurement{}, err
	}
	before, told := processorTime(pid)
	written := b.written(under)
	took, all, err := l.put(ctx, cmp.Or(l.length, b.length), true, do)
	if err != nil {
		return measurement{}, err
	}
	m := measurement{Clients: l.clients, Requests: len(all), Rate: float64(len(all)) / took.Seconds()}
	if after, still := processorTime(pid); told && still {
		m.CPU = milliseconds(after-before) / float64(len(all))
	}
	m.WroteKB = float64(b.written(under)-written) / 1000 / float64(len(all))
	m.P50, m.P99 = percentiles(all)
	return m, nil
}

// written returns what a program has written to files so far, in bytes: what it wrote by system
// calls (wchar of /proc/PID/io), without what went over the network and to its log. It returns zero
// when the system does not tell.
func (b *bench) written(c *child) int64 {
	if c == nil {
		return 0
	}
	all, told := charactersWritten(c.pid())
	if !told {
		return 0
	}
	return all - b.received.Load() - c.said.bytes.Load()
}

// driveAgents lets agents of a route get a path, each request with its own serial.
func (b *bench) driveAgents(ctx context.Context, r route, path string, paid bool, l load) (measurement, error) {
	agents, err := b.connect(ctx, r, l.clients)
	if err != nil {
		return measurement{}, err
	}
	defer hangUp(agents)
	m, err := b.drive(ctx, l, r.process, func(_ context.Context, i int, serial uint64, measured bool) error {
		return agents[i].want(numbered(path, serial, measured), paid)
	})
	if err == nil {
		m.OwnMiB, m.MiB = memory(r.process.pid())
	}
	return m, err
}

// numbered returns a different path for every request, like an agent's work.
func numbered(path string, serial uint64, measured bool) string {
	path += "?n=" + strconv.FormatUint(serial, 10)
	if measured {
		path += "&m=1"
	}
	return path
}

// put runs the clients. It returns the whole time, and the time of each call without pauses.
func (l load) put(ctx context.Context, length time.Duration, measured bool, do call) (time.Duration, []time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, length+time.Minute) // for a call that hangs
	defer cancel()
	times := make([][]time.Duration, l.clients)
	errs := make([]error, l.clients)
	began := time.Now()
	end := began.Add(length)
	var all sync.WaitGroup
	for client := range l.clients {
		all.Go(func() {
			for now := time.Now(); now.Before(end); {
				if err := do(ctx, client, serials.Add(1), measured); err != nil {
					errs[client] = err
					cancel()
					return
				}
				times[client] = append(times[client], time.Since(now))
				if l.pause > 0 {
					time.Sleep(l.pause)
				}
				now = time.Now()
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	for _, err := range errs { // the first error that another failure did not cause
		if err != nil && !errors.Is(err, context.Canceled) {
			return 0, nil, err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return 0, nil, err
	}
	return took, slices.Concat(times...), nil
}

// percentiles returns p50 and p99 in milliseconds. It sorts times.
func percentiles(times []time.Duration) (p50, p99 float64) {
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	return milliseconds(times[len(times)/2]), milliseconds(times[len(times)*99/100])
}

// ask makes a request and returns header and body of the answer. It reads the body to its end, so
// that the connection is used again. Another status than wanted is an error.
func ask(ctx context.Context, c *http.Client, method, url, body string, status int, header ...string) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body)) //nolint:gosec // the bench asks its own servers
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req) //nolint:gosec // its own servers
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, nil, err
	}
	if res.StatusCode != status {
		return nil, nil, fmt.Errorf("%s %s: %s %s%s, not %d", method, req.URL.Path, res.Status,
			got[:min(len(got), 300)], declined(res.Header), status)
	}
	return res.Header, got, nil
}

func declined(h http.Header) string {
	if why := h.Get("Purser-Declined"); why != "" {
		return " (declined: " + why + ")"
	}
	return ""
}
