package books

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/pay"
)

// PutSession stores or replaces a session. Its id must be the SHA-256 of its token in hex: a reader of
// the store must not be able to use the session. *InputError, ErrUnavailable.
func (b *Books) PutSession(ctx context.Context, s pay.Session) error {
	if id, err := hex.DecodeString(s.ID); err != nil || len(id) != 32 {
		return &pay.InputError{Field: "session", Reason: "the SHA-256 of its token, in hex"}
	}
	if len(s.Data) > pay.MaxSessionData {
		return &pay.InputError{Field: "session", Reason: fmt.Sprintf("at most %d bytes", pay.MaxSessionData)}
	}
	return b.store.PutSession(ctx, s)
}

// Session finds a session that has not expired: ErrSessionNotFound.
func (b *Books) Session(ctx context.Context, id string) (pay.Session, error) {
	s, err := b.store.Session(ctx, id)
	if err == nil && !b.now().Before(s.Expires) {
		return pay.Session{}, pay.ErrSessionNotFound
	}
	return s, err
}

const (
	// sweepEvery is the pause between two sweeps.
	sweepEvery = time.Minute
	// sweepBatch is the most sessions that one transaction removes.
	sweepBatch = 1000
)

// Sweep removes expired sessions every minute until ctx ends. Finding none writes nothing.
func (b *Books) Sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := b.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("sessions not swept", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweepOnce removes the sessions that have expired, unless the store cannot write.
func (b *Books) sweepOnce(ctx context.Context) error {
	for {
		n, err := b.store.ExpireSessions(ctx, b.now().UTC(), sweepBatch)
		switch {
		case errors.Is(err, pay.ErrUnavailable):
			return nil
		case err != nil:
			return fmt.Errorf("removing expired sessions: %w", err)
		case n < sweepBatch:
			return nil
		}
	}
}

const (
	// operatorsEnd has the id under which the end of all operators' sessions is kept, beside the
	// sessions themselves. No token has this hash, because tokens are random.
	operatorsEnd = "ends of the sessions that links of purser dashboard began"
	// operatorsEndKept is longer than any session lasts.
	operatorsEndKept = 48 * time.Hour
)

type operatorsEnded struct {
	At time.Time `json:"at"`
}

func operatorsEndID() string {
	sum := sha256.Sum256([]byte(operatorsEnd))
	return hex.EncodeToString(sum[:])
}

// EndOperatorSessions makes every session void that an operator has begun until now.
func (b *Books) EndOperatorSessions(ctx context.Context) error {
	now := b.now().UTC()
	data, err := json.Marshal(operatorsEnded{now})
	if err != nil {
		return err
	}
	if err := b.store.PutSession(ctx, pay.Session{ID: operatorsEndID(), Data: data, Expires: now.Add(operatorsEndKept)}); err != nil {
		return fmt.Errorf("ending the operators' sessions: %w", err)
	}
	by, _ := pay.ActorOf(ctx)
	b.log.Info("all sessions of operators ended", "by", by.String())
	return nil
}

// OperatorSessionsEnded returns the last time of EndOperatorSessions: the sessions that were begun by
// then are void. It is zero if there was none in the last two days.
func (b *Books) OperatorSessionsEnded(ctx context.Context) (time.Time, error) {
	s, err := b.Session(ctx, operatorsEndID())
	if errors.Is(err, pay.ErrSessionNotFound) {
		return time.Time{}, nil
	}
	var ended operatorsEnded
	if err == nil {
		err = json.Unmarshal(s.Data, &ended)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("the end of the operators' sessions: %w", err)
	}
	return ended.At, nil
}
