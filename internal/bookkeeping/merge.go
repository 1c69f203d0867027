package bookkeeping

import "iter"

// Merge adds further bookings to a list. Both are in the order of time.
func Merge(list iter.Seq2[Booking, error], further []Booking) iter.Seq2[Booking, error] {
	return func(yield func(Booking, error) bool) {
		for b, err := range list {
			for err == nil && len(further) > 0 && further[0].At.Before(b.At) {
				if !yield(further[0], nil) {
					return
				}
				further = further[1:]
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
		for _, b := range further {
			if !yield(b, nil) {
				return
			}
		}
	}
}
