package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func overloadAttacks() []attack {
	return []attack{
		{group: overload, name: "huge-bodies", tries: "bodies and headers of megabytes", run: hugeBodies},
		{group: overload, name: "slow-clients", tries: "a hundred clients that send a byte and wait", run: slowClients},
		{group: overload, name: "key-flood", tries: floodTries, run: keyFlood},
		{group: overload, name: "uploads", tries: uploadsTries, run: uploads},
		{group: overload, name: "registration", tries: registrationTries, run: openRegistration},
		{group: overload, name: "failing-flood", tries: failingTries, run: failingFlood},
	}
}

// hugeBodies sends a body and a header far above all needs.
func hugeBodies(ctx context.Context, e *examination) (outcome, error) {
	const tries = "a body of 8 MiB, and a header of 2 MiB"
	var story []string
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.main.url()+"/v1/pay", bytes.NewReader(bytes.Repeat([]byte(" "), 8<<20)))
	if err != nil {
		return outcome{}, err
	}
	r.Header.Set("X-Api-Key", e.probe.customer.Key)
	// A client that is refused before it has sent everything may see only a closed connection.
	if resp, err := send(plain, r); err == nil && resp.code < http.StatusBadRequest {
		story = append(story, "POST /v1/pay: "+resp.status)
	}
	if r, err = http.NewRequestWithContext(ctx, http.MethodGet, e.main.url()+"/v1/spend", nil); err != nil {
		return outcome{}, err
	}
	r.Header.Set("X-Api-Key", e.probe.customer.Key)
	r.Header.Set("X-Filling", strings.Repeat("x", 2<<20))
	if resp, err := send(plain, r); err == nil && resp.code < http.StatusBadRequest {
		story = append(story, "GET /v1/spend: "+resp.status)
	}
	if took, err := e.healthTime(ctx); err != nil {
		story = append(story, fmt.Sprintf("afterwards, GET /health: %v after %s", err, took))
	}
	if len(story) > 0 {
		return failed(story, tries), nil
	}
	return held("%s: refused", tries), nil
}

// prompt bounds the answer of a purser that other clients keep busy.
const prompt = 5 * time.Second

// healthTime asks /health and returns the time of its answer.
func (e *examination) healthTime(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, prompt)
	defer cancel()
	began := time.Now()
	_, err := e.main.get(ctx, "/health")
	return time.Since(began).Round(time.Millisecond), err
}

// slowClients holds connections open without a whole request.
func slowClients(ctx context.Context, e *examination) (outcome, error) {
	const clients = 100
	for range clients {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", e.main.api)
		if err != nil {
			return outcome{}, err
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte("G")); err != nil {
			return outcome{}, err
		}
	}
	took, err := e.healthTime(ctx)
	const tries = "a hundred clients that send a byte and wait"
	switch {
	case ctx.Err() != nil:
		return outcome{}, ctx.Err()
	case err != nil:
		return failed([]string{fmt.Sprintf("GET /health of another client: %v", err)}, tries), nil
	}
	return held("%s: another one is answered in %s", tries, took), nil
}

const (
	// mostFlood bounds the number of keys that a flood makes.
	mostFlood = 1000
	// flooders is the number of clients that make them.
	flooders = 8
	// spare is the number of keys beyond the limit after which the attack counts as a success.
	spare = 20
)

const floodTries = "one address makes keys as fast as it can"

// keyFlood makes more keys than an address may in a minute. The allowed number grows with the time
// that it takes.
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
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	var (
		all     sync.WaitGroup
		made    atomic.Int64
		over    atomic.Bool
		first   = make(chan answer, flooders)
		wrong   = make(chan error, flooders)
		began   = time.Now()
		tooMany = func() bool {
			return float64(made.Load()) > float64(rate)*(1+time.Since(began).Minutes())+spare
		}
	)
	for range flooders {
		all.Go(func() {
			for !over.Load() && !tooMany() {
				got, err := e.browse(ctx, http.MethodPost, "/api-keys", "", http.Header{"Content-Type": {"application/json"}})
				switch {
				case err != nil:
					wrong <- err
				case got.code == http.StatusTooManyRequests:
					first <- got
				case got.code == http.StatusCreated:
					made.Add(1)
					continue
				default:
					wrong <- errors.New("POST /api-keys: " + got.status)
				}
				over.Store(true)
			}
		})
	}
	all.Wait()
	select {
	case got := <-first:
		if got.header.Get("Retry-After") == "" {
			return failed([]string{"the 429 has no Retry-After"}, floodTries), nil
		}
		return held("%s: 429 after %d", floodTries, made.Load()), nil
	default:
	}
	select {
	case err := <-wrong:
		return outcome{}, err
	default:
	}
	return failed([]string{fmt.Sprintf("%d keys were made in %s", made.Load(), time.Since(began).Round(time.Millisecond))}, floodTries), nil
}
