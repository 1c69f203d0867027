package proxy

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/policy"
)

// maxAnnounced bounds what a client can announce as the time that it waits for an answer.
const maxAnnounced = 24 * time.Hour

// announced returns the time that a client says it waits for an answer, 0 if it says nothing: SDKs of OpenAI
// and Anthropic do in seconds, and so does Prefer (RFC 7240).
func announced(h http.Header) (longest time.Duration) {
	values := append(h.Values("X-Stainless-Timeout"), h.Values("X-Stainless-Read-Timeout")...)
	for preference := range strings.FieldsFuncSeq(strings.Join(h.Values("Prefer"), ","), func(r rune) bool { return r == ',' || r == ';' }) {
		if name, seconds, is := strings.Cut(preference, "="); is && strings.EqualFold(strings.TrimSpace(name), "wait") {
			values = append(values, strings.Trim(strings.TrimSpace(seconds), `"`))
		}
	}
	for _, value := range values {
		if seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && seconds > 0 {
			longest = max(longest, time.Duration(min(seconds, maxAnnounced.Seconds())*float64(time.Second)))
		}
	}
	return longest
}

// tooSlowError ends a request whose upstream takes too long to answer.
type tooSlowError struct{ bound time.Duration }

func (e tooSlowError) Error() string { return "no answer within " + e.bound.String() }
func (tooSlowError) Timeout() bool   { return true }

// answerTime bounds the time from the end of a request that is not paid for to the header of its answer.
type answerTime struct {
	ctx      context.Context // of the send
	bound    time.Duration
	timer    *time.Timer // nil: there is no bound
	answered atomic.Bool
}

// answerTime begins the time of a request. A reverse proxy has bounds of its own, which are the operator's.
func (t *Transport) answerTime(req *http.Request) *answerTime {
	a := &answerTime{ctx: req.Context(), bound: max(t.payer.SendTimeout(), announced(req.Header))}
	if t.door == policy.DoorProxy {
		ctx, stop := context.WithCancelCause(a.ctx) // once there is an answer, the client's context ends it
		a.ctx, a.timer = ctx, time.AfterFunc(math.MaxInt64, func() {
			if !a.answered.Load() {
				stop(tooSlowError{a.bound})
			}
		})
	}
	return a
}

// written is called when the request has been written.
func (a *answerTime) written(httptrace.WroteRequestInfo) {
	if a.timer != nil && !a.answered.Load() { // an answer may come before the end of its request
		a.timer.Reset(a.bound)
	}
}

// over ends the time, and returns the error of the send.
func (a *answerTime) over(err error) error {
	if a.timer == nil {
		return err
	}
	a.answered.Store(true)
	a.timer.Stop()
	if slow, is := errors.AsType[tooSlowError](context.Cause(a.ctx)); is && err != nil {
		return slow
	}
	return err
}
