package payapi

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Bounds on requests before any work is done for them.
const (
	// bodyTime bounds the time that a client takes to send a body.
	bodyTime = 30 * time.Second
	// freeBody is the part of every body that always finds room, in bytes. Bodies of honest
	// requests are shorter. The parts beyond it share maxBodies.
	freeBody  = 16 << 10
	maxBodies = 64 << 20 // in bytes
	// anonymous bounds the requests without a key, so that they leave room for the others.
	anonymous = 64
	// maxOfKey and maxOfStranger bound the requests of one key, or of one address without a key.
	// Requests whose body is still to come count too.
	maxOfKey, maxOfStranger = 2048, 256
	// drainTime bounds the time for the rest of a body that will not be read.
	drainTime = 2 * time.Second
	// failuresAtOnce and failuresPerMinute bound a client's wrong keys.
	failuresAtOnce, failuresPerMinute = 120, 120
)

// busy returns the refusal of a request for which no work was begun.
func busy(cause error) error {
	return &refusal{
		status: http.StatusServiceUnavailable, text: textUnavailable, detail: cause.Error(),
		retryAfter: int(admission.RetryAfter.Seconds()),
	}
}

// isBusy reports whether an error is a refusal for want of room.
func isBusy(err error) bool {
	e, ok := errors.AsType[*refusal](err)
	return ok && e.status == http.StatusServiceUnavailable
}

// authenticate resolves a request's API key, unless its client has sent too many wrong keys.
func (a *API) authenticate(r *http.Request) (pay.Key, error) {
	// With different values, each reader could take another one.
	values := r.Header.Values("X-Api-Key")
	if len(values) != 1 {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	from, guess := perclient.Peer(r.RemoteAddr), pay.HashOf(values[0])
	if wait := a.logins.Blocked(from, guess, a.now()); wait > 0 {
		return pay.Key{}, tooManyRequests(wait)
	}
	key, err := a.payer.Resolve(r.Context(), values[0])
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		a.logins.Failed(from, a.now())
	case err == nil:
		a.logins.Succeeded(guess, a.now())
		a.payer.NoteUse(key.ID, policy.DoorAPI)
	}
	return key, err
}

func tooManyRequests(wait time.Duration) error {
	return &refusal{status: http.StatusTooManyRequests, text: textTooMany, retryAfter: int(math.Ceil(wait.Seconds()))}
}

// admit reads the request's body, at the speed of its client. It then waits for a place to work on
// the request. The caller must leave it.
func (a *API) admit(r *http.Request, gate *admission.Gate, shares *admission.Shares, who string) (*place, error) {
	giveBack, err := shares.Take(who)
	if err != nil {
		a.overloaded()
		return nil, busy(err)
	}
	if r.ContentLength != 0 {
		body, err := io.ReadAll(r.Body)
		r.Body = &whole{bytes.NewReader(body), err}
	}
	p := &place{gate: gate, who: who, giveBack: giveBack}
	if err := p.enter(r); err != nil {
		giveBack()
		return nil, err
	}
	return p, nil
}

// place is a request's place among those that are worked on.
type place struct {
	gate     *admission.Gate
	who      string
	giveBack func() // the share of the request
	exit     func() // nil: the request is outside
}

func (p *place) enter(r *http.Request) error {
	exit, err := p.gate.Enter(r.Context(), p.who)
	if _, full := errors.AsType[*admission.FullError](err); full {
		err = busy(err)
	}
	if err == nil {
		p.exit = exit
	}
	return err
}

// outside runs wait without the place, which other requests have meanwhile.
func (p *place) outside(r *http.Request, wait func() error) error {
	p.exit()
	p.exit = nil
	if err := wait(); err != nil {
		return err
	}
	return p.enter(r)
}

func (p *place) leave() {
	if p.exit != nil {
		p.exit()
	}
	p.giveBack()
}

// stranger returns the client address that counts for a request without a key.
func stranger(r *http.Request) string {
	if from := perclient.Peer(r.RemoteAddr); from != (netip.Addr{}) {
		return from.String()
	}
	return ""
}

// whole is a body that was read to its end, or to an error.
type whole struct {
	*bytes.Reader
	err error // the error that ended it, or nil
}

func (b *whole) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		err = b.err
	}
	return n, err
}

func (b *whole) Close() error { return nil }

// incoming is a body while it arrives. All of it must arrive within bodyTime, and the part beyond
// freeBody must find room.
type incoming struct {
	io.ReadCloser
	deadline func(time.Time) error
	room     *atomic.Int64 // the room left for all bodies

	begun, over bool
	read, taken int64
}

var errNoRoom = busy(errors.New("too many large requests are under way"))

func (b *incoming) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		// A ResponseWriter without deadlines serves no network, so no deadline is needed.
		_ = b.deadline(time.Now().Add(bodyTime))
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if more := b.read - freeBody - b.taken; more > 0 {
		b.taken += more
		if b.room.Add(-more) < 0 {
			return 0, errNoRoom
		}
	}
	// After any other error the server may still wait for the rest.
	if errors.Is(err, io.EOF) {
		b.over = true
		_ = b.deadline(time.Time{})
	}
	return n, err
}

// unwanted shortens the deadline of a request that is answered. Its server reads the rest of the
// body before it sends the answer.
func (b *incoming) unwanted() {
	if !b.over {
		_ = b.deadline(time.Now().Add(drainTime))
	}
}

// release gives the room back.
func (b *incoming) release() { b.room.Add(b.taken) }
