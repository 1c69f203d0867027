package books

import (
	"context"
	"crypto/rand"
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
	s, err := b.reader.Session(ctx, id)
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
	// operatorsEnd has the id under which the epoch of operators is kept, beside the sessions
	// themselves. No token has this hash, because tokens are random.
	operatorsEnd = "ends of the sessions that links of purser dashboard began"
	// operatorsEndKept makes the row one of those that a full store removes last.
	operatorsEndKept = 100 * 365 * 24 * time.Hour
)

type operatorsEnded struct {
	Epoch string `json:"epoch"`
}

func operatorsEndID() string {
	sum := sha256.Sum256([]byte(operatorsEnd))
	return hex.EncodeToString(sum[:])
}

// EndOperatorSessions makes every session void that an operator has begun until now. It compares no
// times, because the clock may be put back, and another node may have another.
func (b *Books) EndOperatorSessions(ctx context.Context) error {
	data, err := json.Marshal(operatorsEnded{rand.Text()})
	if err != nil {
		return err
	}
	if err := b.store.PutSession(ctx, pay.Session{ID: operatorsEndID(), Data: data, Expires: b.now().UTC().Add(operatorsEndKept)}); err != nil {
		return fmt.Errorf("ending the operators' sessions: %w", err)
	}
	by, _ := pay.ActorOf(ctx)
	b.log.Info("all sessions of operators ended", "by", by.String())
	return nil
}

// OperatorEpoch returns a text that every call of EndOperatorSessions changes. Operators' sessions of
// another epoch are void.
func (b *Books) OperatorEpoch(ctx context.Context) (string, error) {
	s, err := b.Session(ctx, operatorsEndID())
	if errors.Is(err, pay.ErrSessionNotFound) {
		return "", nil
	}
	var ended operatorsEnded
	if err == nil {
		err = json.Unmarshal(s.Data, &ended)
	}
	if err != nil {
		return "", fmt.Errorf("the epoch of the operators' sessions: %w", err)
	}
	return ended.Epoch, nil
}
