package memory

import (
	"context"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

// AddDeclines adds counts to those of their keys and days.
func (s *Store) AddDeclines(ctx context.Context, list []pay.Declined) error {
	return s.do(ctx, func(r *rows) error {
		for _, d := range list {
			if _, known := r.keys.get(d.KeyID); !known && d.KeyID != "" {
				continue
			}
			d = copied(d)
			d.Day = pay.DayOf(d.Day)
			var day, others []pay.Declined
			oldest := d.Day.AddDate(0, 0, -pay.MaxDeclinedDays)
			for _, o := range r.declined {
				switch {
				case o.KeyID == d.KeyID && o.Day.Equal(d.Day):
					day = append(day, o)
				case o.KeyID != d.KeyID || o.Day.After(oldest):
					others = append(others, o)
				}
			}
			r.declined = slices.Concat(others, pay.AddDeclined(day, d))
		}
		return nil
	})
}

// Declines lists what was declined to keys from one UTC day to another.
func (s *Store) Declines(ctx context.Context, keyIDs []string, from, to time.Time) ([]pay.Declined, error) {
	from, to = pay.DayOf(from), pay.DayOf(to)
	return read(ctx, s, func(r *rows) (list []pay.Declined, err error) {
		for _, d := range r.declined {
			if slices.Contains(keyIDs, d.KeyID) && !d.Day.Before(from) && !d.Day.After(to) {
				list = append(list, d)
			}
		}
		return list, nil
	})
}
