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
	"github.com/purserpay/purser/internal/peer"
	"github.com/purserpay/purser/pay"
)

// Bounds of what is not worked on yet.
const (
	// bodyTime is how long a client may take to send a request's body.
	bodyTime = 30 * time.Second
	// freeBody is how much of every body is kept, whatever else is. Those of honest requests
	// are shorter; what is beyond shares maxBodies.
	freeBody  = 16 << 10
	maxBodies = 64 << 20 // bytes
	// anonymous bounds requests without a key, so that they leave room for those with one.
	anonymous = 64
	// maxOfKey and maxOfStranger are the requests that one key, or one address without a key,
	// may have under way, those included whose bodies are still to come.
	maxOfKey, maxOfStranger = 2048, 256
	// drainTime is how long a client has to send the rest of a body that nobody wants.
	drainTime = 2 * time.Second
	// failuresAtOnce and failuresPerMinute are how often a client may be wrong about its key.
	failuresAtOnce, failuresPerMinute = 120, 120
)

// busy is the refusal of a request that nothing was begun for.
func busy(cause error) error {
	return &refusal{
		status: http.StatusServiceUnavailable, text: textUnavailable, detail: cause.Error(),
		retryAfter: int(admission.RetryAfter.Seconds()),
	}
}

// authenticate resolves a request's API key, unless its sender has guessed too often.
func (a *API) authenticate(r *http.Request) (pay.Key, error) {
	// Different values would leave it to each reader which one counts.
	values := r.Header.Values("X-Api-Key")
	if len(values) != 1 {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	from, guess := peer.Of(r.RemoteAddr), pay.HashOf(values[0])
	if wait := a.logins.Blocked(from, guess, a.now()); wait > 0 {
		return pay.Key{}, tooManyRequests(wait)
	}
	key, err := a.payer.Resolve(r.Context(), values[0])
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		a.logins.Failed(from, a.now())
	case err == nil:
		a.logins.Succeeded(guess, a.now())
	}
	return key, err
}

func tooManyRequests(wait time.Duration) error {
	return &refusal{status: http.StatusTooManyRequests, text: textTooMany, retryAfter: int(math.Ceil(wait.Seconds()))}
}

// admit reads the request's body, which takes as long as its sender wants it to, and then
// waits for a place to work on it. leave gives the place back.
func (a *API) admit(r *http.Request, gate *admission.Gate, shares *admission.Shares, who string) (leave func(), err error) {
	giveBack, err := shares.Take(who)
	if err != nil {
		a.overloaded()
		return nil, busy(err)
	}
	if r.ContentLength != 0 {
		body, err := io.ReadAll(r.Body)
		r.Body = &whole{bytes.NewReader(body), err}
	}
	enough, err := gate.Enter(r.Context(), who)
	if err != nil {
		giveBack()
		if _, full := errors.AsType[*admission.FullError](err); full {
			err = busy(err)
		}
		return nil, err
	}
	return func() {
		enough()
		giveBack()
	}, nil
}

// stranger is whom a request without a key counts for.
func stranger(r *http.Request) string {
	if from := peer.Of(r.RemoteAddr); from != (netip.Addr{}) {
		return from.String()
	}
	return ""
}

// whole is a body that was read as far as it goes.
type whole struct {
	*bytes.Reader
	err error // what ended it; nil for its end
}

func (b *whole) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		err = b.err
	}
	return n, err
}

func (b *whole) Close() error { return nil }

// incoming is a body as it comes: it has bodyTime for all of it, and what is beyond freeBody
// must find room.
type incoming struct {
	io.ReadCloser
	deadline func(time.Time) error
	room     *atomic.Int64 // what is left for all bodies

	begun, over bool
	read, taken int64
}

var errNoRoom = busy(errors.New("too many large requests are under way"))

func (b *incoming) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		_ = b.deadline(time.Now().Add(bodyTime)) // not every ResponseWriter can; then nobody waits on a network
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if more := b.read - freeBody - b.taken; more > 0 {
		b.taken += more
		if b.room.Add(-more) < 0 {
			return 0, errNoRoom
		}
	}
	if errors.Is(err, io.EOF) { // of a body that ends otherwise the server may still wait for the rest
		b.over = true
		_ = b.deadline(time.Time{})
	}
	return n, err
}

// unwanted is for a request that is answered: its server waits for what is left of the body
// before it sends the answer.
func (b *incoming) unwanted() {
	if !b.over {
		_ = b.deadline(time.Now().Add(drainTime))
	}
}

// release gives the room back.
func (b *incoming) release() { b.room.Add(b.taken) }
