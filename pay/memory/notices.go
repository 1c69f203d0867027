package memory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// noticeBook is the outbox under the lock of the store.
type noticeBook struct{ *rows }

// Mark finds a mark.
func (b noticeBook) Mark(name string) (pay.NoticeMark, error) { return b.marks[name], nil }

// SetMark replaces a mark, and removes those that have expired.
func (b noticeBook) SetMark(name string, m pay.NoticeMark, now time.Time) error {
	maps.DeleteFunc(b.marks, func(_ string, old pay.NoticeMark) bool { return !old.Until.After(now) })
	b.marks[name] = m
	return nil
}

// Append numbers and keeps a notice.
func (b noticeBook) Append(n pay.Notice) error {
	if len(b.notices) > 0 {
		n.Number = b.notices[len(b.notices)-1].Number
	}
	n.Number++
	b.notices = append(b.notices, copied(n))
	b.notices = b.notices[max(0, len(b.notices)-pay.NoticesKept):]
	return nil
}

func (v view) Paid(keyID, host string, dialed bool) (bool, error) {
	var newest []string
	for _, e := range v.events.ascending("") {
		if e.KeyID == keyID && e.Host == host {
			newest = append(newest, e.PaymentID)
		}
	}
	newest = newest[max(0, len(newest)-pay.PaidLooked):]
	return slices.ContainsFunc(newest, func(id string) bool {
		p, found := v.payments.get(id)
		return !dialed || found && p.Dialed()
	}), nil
}

func (v view) Mark(name string) (pay.NoticeMark, error) { return v.marks[name], nil }

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
			if err := (noticeBook{r}).SetMark(name, m, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddNotices writes notices.
func (s *Store) AddNotices(ctx context.Context, list []pay.Notice) error {
	return s.do(ctx, func(r *rows) error { return pay.WriteNotices(noticeBook{r}, list) })
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
		now := s.clock()
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
