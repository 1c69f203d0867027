package memory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Mark finds a mark.
func (r *rows) Mark(name string) (pay.NoticeMark, error) { return r.marks[name], nil }

// SetMark replaces a mark, and removes those that have expired.
func (r *rows) SetMark(name string, m pay.NoticeMark, now time.Time) error {
	maps.DeleteFunc(r.marks, func(_ string, old pay.NoticeMark) bool { return !old.Until.After(now) })
	r.marks[name] = m
	return nil
}

// Append numbers and keeps a notice.
func (r *rows) Append(n pay.Notice) error {
	if len(r.notices) > 0 {
		n.Number = r.notices[len(r.notices)-1].Number
	}
	n.Number++
	r.notices = append(r.notices, copied(n))
	r.notices = r.notices[max(0, len(r.notices)-pay.NoticesKept):]
	return nil
}

func (r *rows) Paid(keyID, host string, dialed bool) (bool, error) {
	var newest []string
	for _, e := range r.events.ascending("") {
		if e.KeyID == keyID && e.Host == host {
			newest = append(newest, e.PaymentID)
		}
	}
	newest = newest[max(0, len(newest)-pay.PaidLooked):]
	return slices.ContainsFunc(newest, func(id string) bool {
		p, found := r.payments.get(id)
		return !dialed || found && p.Dialed()
	}), nil
}

// Mark finds a mark.
func (s *Store) Mark(ctx context.Context, name string) (pay.NoticeMark, error) {
	return read(ctx, s, func(r *rows) (pay.NoticeMark, error) { return r.marks[name], nil })
}

// SetMarks replaces marks.
func (s *Store) SetMarks(ctx context.Context, _ string, marks map[string]pay.NoticeMark, now time.Time) error {
	return s.do(ctx, func(r *rows) error {
		for name, m := range marks {
			if delete(r.marks, name); m.Until.IsZero() {
				continue
			}
			if err := r.SetMark(name, m, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddNotices writes notices.
func (s *Store) AddNotices(ctx context.Context, list []pay.Notice) error {
	return s.do(ctx, func(r *rows) error { return storekit.WriteNotices(r, list) })
}

// ForgetNotice forgets a Once.
func (s *Store) ForgetNotice(ctx context.Context, once string) error {
	return s.do(ctx, func(r *rows) error {
		delete(r.marks, pay.MarkName(once))
		return nil
	})
}

// Notices lists notices, newest first.
func (s *Store) Notices(ctx context.Context, q pay.NoticeQuery) ([]pay.Notice, error) {
	return read(ctx, s, func(r *rows) (list []pay.Notice, err error) {
		for _, n := range slices.Backward(r.notices) {
			if len(list) < q.Limit && (q.Before == 0 || n.Number < q.Before) {
				list = append(list, n)
			}
		}
		return list, nil
	})
}

// NoticesAfter lists notices with higher numbers, oldest first.
func (s *Store) NoticesAfter(ctx context.Context, number uint64, limit int) ([]pay.Notice, error) {
	return read(ctx, s, func(r *rows) (list []pay.Notice, err error) {
		for _, n := range r.notices {
			if len(list) < limit && n.Number > number {
				list = append(list, n)
			}
		}
		return list, nil
	})
}

// Deliveries lists the destinations that are known, by name.
func (s *Store) Deliveries(ctx context.Context) ([]pay.Delivery, error) {
	return read(ctx, s, func(r *rows) ([]pay.Delivery, error) {
		return slices.SortedFunc(maps.Values(r.deliveries), func(a, b pay.Delivery) int {
			return strings.Compare(a.Destination, b.Destination)
		}), nil
	})
}

// ClaimDelivery claims a destination that has no claim.
func (s *Store) ClaimDelivery(ctx context.Context, d pay.Delivery) (mine bool, err error) {
	err = s.do(ctx, func(r *rows) error {
		now := s.rows.clock()
		if mine = r.deliveries[d.Destination].Version == d.Version && !r.claims[d.Destination].After(now); mine {
			r.claims[d.Destination] = now.Add(pay.NoticeClaimTime)
		}
		return nil
	})
	return mine, err
}

// SetDelivery replaces what is known of a destination, if it has not changed, and ends its claim.
func (s *Store) SetDelivery(ctx context.Context, d pay.Delivery) error {
	return s.do(ctx, func(r *rows) error {
		if r.deliveries[d.Destination].Version != d.Version {
			return pay.ErrDeliveryChanged
		}
		d.Version++
		r.deliveries[d.Destination] = copied(d)
		delete(r.claims, d.Destination)
		return nil
	})
}

// ForgetDelivery removes what is known of a destination.
func (s *Store) ForgetDelivery(ctx context.Context, destination string) error {
	return s.do(ctx, func(r *rows) error {
		delete(r.deliveries, destination)
		return nil
	})
}
