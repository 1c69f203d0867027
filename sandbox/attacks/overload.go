package attacks

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

func overloadAttacks() []attack {
	return []attack{
		{group: overload, name: "huge-bodies", tries: "bodies and headers of megabytes", run: hugeBodies},
		{group: overload, name: "slow-clients", tries: "a hundred clients that send a byte and wait", run: slowClients},
		{group: overload, name: "key-flood", tries: floodTries, run: keyFlood},
		{group: overload, name: "uploads", tries: uploadsTries, run: uploads, proxied: true},
		{group: overload, name: "registration", tries: registrationTries, run: openRegistration},
		{group: overload, name: "failing-flood", tries: failingTries, run: failingFlood},
	}
}

// hugeBodies sends a body and a header far above all needs.
func hugeBodies(ctx context.Context, e *examination) (outcome, error) {
	var story []string
	for _, one := range []struct{ method, path, body, filling string }{
		{http.MethodPost, "/v1/pay", strings.Repeat(" ", 8<<20), ""},
		{http.MethodGet, "/v1/spend", "", strings.Repeat("x", 2<<20)},
	} {
		r, err := http.NewRequestWithContext(ctx, one.method, e.main.url()+one.path, strings.NewReader(one.body))
		if err != nil {
			return outcome{}, err
		}
		r.Header.Set("X-Api-Key", e.probe.customer.Key)
		r.Header.Set("X-Filling", one.filling)
		// A client that is refused before it has sent everything may see only a closed connection.
		if resp, err := send(plain, r); err == nil && resp.code < http.StatusBadRequest {
			story = append(story, one.method+" "+one.path+": "+resp.status)
		}
	}
	if took, err := e.healthTime(ctx); err != nil {
		story = append(story, fmt.Sprintf("afterwards, GET /health: %v after %s", err, took))
	}
	return verdict(story, "a body of 8 MiB, and a header of 2 MiB", "refused"), nil
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
