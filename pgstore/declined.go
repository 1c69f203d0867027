package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/pay"
)

// AddDeclines adds counts to those of their keys and days.
func (d *DB) AddDeclines(ctx context.Context, list []pay.Declined) error {
	var locks []string
	for _, one := range list {
		locks = append(locks, "declined/"+one.KeyID)
	}
	return d.change(ctx, locks, func(t *tx) error {
		for _, one := range list {
			if err := t.addDeclined(one); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tx) addDeclined(one pay.Declined) error {
	if one.KeyID != "" {
		switch _, err := keyIn(t.ctx, t, one.KeyID); {
		case errors.Is(err, pay.ErrKeyNotFound):
			return nil
		case err != nil:
			return err
		}
	}
	keyID, day := one.KeyID, dayNumber(one.Day)
	var text []byte
	var was []pay.Declined
	err := get(t.ctx, t, nil, `SELECT row FROM declined WHERE key_id = $1 AND day = $2`, []any{keyID, day}, func(r pgx.Rows) error {
		if err := r.Scan(&text); err != nil {
			return err
		}
		var err error
		was, err = decode[[]pay.Declined](text)
		return err
	})
	if err != nil {
		return err
	}
	one.KeyID, one.Day = "", time.Time{} // in the key
	row, err := json.Marshal(pay.AddDeclined(was, one))
	if err != nil {
		return err
	}
	if err := t.exec(`DELETE FROM declined WHERE key_id = $1 AND day <= $2`, keyID, day-pay.MaxDeclinedDays); err != nil {
		return err
	}
	return t.exec(`INSERT INTO declined (key_id, day, row) VALUES ($1, $2, $3) ON CONFLICT (key_id, day) DO UPDATE SET row = excluded.row`, keyID, day, row)
}

// Declines lists what was declined to keys from one UTC day to another.
func (d *DB) Declines(ctx context.Context, keyIDs []string, from, to time.Time) (list []pay.Declined, err error) {
	err = d.each(ctx, func(r pgx.Rows) error {
		var keyID string
		var day int32
		var row []byte
		if err := r.Scan(&keyID, &day, &row); err != nil {
			return err
		}
		some, err := decode[[]pay.Declined](row)
		for i := range some {
			some[i].KeyID, some[i].Day = keyID, dayTime(day)
		}
		list = append(list, some...)
		return err
	}, `SELECT key_id, day, row FROM declined WHERE key_id = ANY($1) AND day BETWEEN $2 AND $3`, keyIDs, dayNumber(from), dayNumber(to))
	return list, err
}
