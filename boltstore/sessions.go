package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// sessionRow holds a session as it is stored.
type sessionRow struct {
	Expires time.Time `json:"Expires"`
	Data    []byte    `json:"Data"` // sealed
}

func sessionIn(tx *bbolt.Tx, id string) (row sessionRow, err error) {
	encoded := tx.Bucket(sessionsBucket).Get([]byte(id))
	if encoded == nil {
		return row, pay.ErrSessionNotFound
	}
	if err := decodeRow(encoded, &row); err != nil {
		return row, fmt.Errorf("session: %w", err)
	}
	return row, nil
}

// PutSession stores or replaces a session. When there are too many, it removes the one that would
// expire first.
func (d *DB) PutSession(ctx context.Context, s pay.Session) error {
	if s.ID == "" || len(s.Data) > pay.MaxSessionData {
		return errors.New("put session: no id, or too long")
	}
	return d.do(ctx, &op{run: func(b *batch) error {
		if err := d.disk.checkSpace(); err != nil {
			return err
		}
		sealed, err := d.vault.Load().Seal(s.Data, codec.SessionSecret(s.ID))
		if err != nil {
			return fmt.Errorf("put session: %w", err)
		}
		row, err := encodeRow(sessionRow{Expires: s.Expires.UTC(), Data: sealed})
		if err != nil {
			return err
		}
		n, err := sessionCount(b.tx)
		if err != nil {
			return err
		}
		switch was, err := sessionIn(b.tx, s.ID); {
		case err == nil:
			if err := b.delete(sessionsExpiryBucket, joinKey(encodeTime(was.Expires), s.ID)); err != nil {
				return err
			}
		case !errors.Is(err, pay.ErrSessionNotFound):
			return err
		default:
			if n >= d.maxSessions {
				gone, err := b.dropSessions(nil, n-d.maxSessions+1)
				if err != nil {
					return err
				}
				n -= gone
			}
			if err := b.countSessions(n + 1); err != nil {
				return err
			}
		}
		if err := b.put(sessionsBucket, []byte(s.ID), row); err != nil {
			return err
		}
		return b.put(sessionsExpiryBucket, joinKey(encodeTime(s.Expires), s.ID), nil)
	}})
}

// Session finds a session, an expired one too.
func (d *DB) Session(ctx context.Context, id string) (pay.Session, error) {
	var row sessionRow
	err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
		row, err = sessionIn(tx, id)
		return err
	})
	if err != nil {
		return pay.Session{}, err
	}
	data, err := d.vault.Load().Unseal(row.Data, codec.SessionSecret(id))
	if err != nil {
		return pay.Session{}, fmt.Errorf("session: %w", err)
	}
	return pay.Session{ID: id, Data: data, Expires: row.Expires}, nil
}

// DeleteSession removes a session, if it is there.
func (d *DB) DeleteSession(ctx context.Context, id string) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		was, err := sessionIn(b.tx, id)
		if errors.Is(err, pay.ErrSessionNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		n, err := sessionCount(b.tx)
		if err != nil {
			return err
		}
		if err := b.delete(sessionsBucket, []byte(id)); err != nil {
			return err
		}
		if err := b.delete(sessionsExpiryBucket, joinKey(encodeTime(was.Expires), id)); err != nil {
			return err
		}
		return b.countSessions(n - 1)
	}})
}

// ExpireSessions removes sessions whose time is over. It looks for them in a read transaction
// first, so that finding none is cheap.
func (d *DB) ExpireSessions(ctx context.Context, now time.Time, limit int) (n int, err error) {
	limit = min(limit, maxPage)
	over := false
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(sessionsExpiryBucket).Cursor().First()
		over = k != nil && expired(k, now)
		return nil
	})
	if err != nil || !over {
		return 0, err
	}
	err = d.do(ctx, &op{run: func(b *batch) error {
		have, err := sessionCount(b.tx)
		if err != nil {
			return err
		}
		if n, err = b.dropSessions(&now, limit); err != nil || n == 0 {
			return err
		}
		return b.countSessions(have - n)
	}})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// expired reports whether the time of an entry by expiry is over.
func expired(entry []byte, now time.Time) bool {
	return len(entry) > 8 && bytes.Compare(entry[:8], []byte(encodeTime(now))) <= 0
}

// dropSessions removes the n sessions that expire first; with now only those whose time is over
// then. The caller updates the count.
func (b *batch) dropSessions(now *time.Time, n int) (gone int, err error) {
	var entries [][]byte
	c := b.tx.Bucket(sessionsExpiryBucket).Cursor()
	for k, _ := c.First(); k != nil && len(entries) < n && (now == nil || expired(k, *now)); k, _ = c.Next() {
		entries = append(entries, bytes.Clone(k))
	}
	for _, k := range entries {
		if err := b.delete(sessionsExpiryBucket, k); err != nil {
			return 0, err
		}
		if err := b.delete(sessionsBucket, k[9:]); err != nil {
			return 0, err
		}
	}
	return len(entries), nil
}

// sessionCount reads the number of sessions.
func sessionCount(tx *bbolt.Tx) (int, error) {
	text := tx.Bucket(metaBucket).Get(sessionCountKey)
	if text == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, fmt.Errorf("count of sessions: %w", err)
	}
	return n, nil
}

func (b *batch) countSessions(n int) error {
	return b.put(metaBucket, sessionCountKey, strconv.AppendInt(nil, int64(max(n, 0)), 10))
}

// clearSessions ends all sessions of a restored store. Otherwise a visitor who has signed out
// since the backup would be signed in again.
func clearSessions(tx *bbolt.Tx) error {
	for _, name := range [][]byte{sessionsBucket, sessionsExpiryBucket} {
		if err := tx.DeleteBucket(name); err != nil {
			return fmt.Errorf("clear %s: %w", name, err)
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("clear %s: %w", name, err)
		}
	}
	return tx.Bucket(metaBucket).Delete(sessionCountKey)
}
