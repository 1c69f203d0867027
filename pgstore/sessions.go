package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// sessionsLock is held while sessions are counted.
const sessionsLock = "sessions"

// PutSession stores or replaces a session. When there are too many, it removes the one that would
// expire first.
func (d *DB) PutSession(ctx context.Context, s pay.Session) error {
	if s.ID == "" || len(s.Data) > pay.MaxSessionData {
		return errors.New("put session: no id, or too long")
	}
	sealed, err := d.vault.Seal(s.Data, codec.SessionSecret(s.ID))
	if err != nil {
		return fmt.Errorf("put session: %w", err)
	}
	return d.change(ctx, []string{sessionsLock}, func(t *tx) error {
		tag, err := t.Exec(t.ctx, `UPDATE sessions SET expires = $2, data = $3 WHERE id = $1`, s.ID, nanoseconds(s.Expires), sealed)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		err = t.exec(`DELETE FROM sessions WHERE id IN (SELECT id FROM sessions ORDER BY expires, id LIMIT greatest(0, (SELECT count(*) FROM sessions) - $1))`, pay.MaxSessions-1)
		if err != nil {
			return err
		}
		return t.exec(`INSERT INTO sessions (id, expires, data) VALUES ($1, $2, $3)`, s.ID, nanoseconds(s.Expires), sealed)
	})
}

// Session finds a session, an expired one too.
func (d *DB) Session(ctx context.Context, id string) (pay.Session, error) {
	var expires int64
	var sealed []byte
	err := get(ctx, d.pool, pay.ErrSessionNotFound, `SELECT expires, data FROM sessions WHERE id = $1`, []any{id}, func(r pgx.Rows) error { return r.Scan(&expires, &sealed) })
	if err != nil {
		return pay.Session{}, err
	}
	data, err := d.vault.Unseal(sealed, codec.SessionSecret(id))
	if err != nil {
		return pay.Session{}, fmt.Errorf("session: %w", err)
	}
	return pay.Session{ID: id, Data: data, Expires: time.Unix(0, expires).UTC()}, nil
}

// DeleteSession removes a session, if it is there.
func (d *DB) DeleteSession(ctx context.Context, id string) error {
	return d.change(ctx, nil, func(t *tx) error { return t.exec(`DELETE FROM sessions WHERE id = $1`, id) })
}

// ExpireSessions removes sessions whose time is over.
func (d *DB) ExpireSessions(ctx context.Context, now time.Time, limit int) (n int, err error) {
	err = d.change(ctx, nil, func(t *tx) error {
		tag, err := t.Exec(t.ctx, `DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires <= $1 ORDER BY expires, id LIMIT $2)`, nanoseconds(now), min(limit, maxPage))
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}
