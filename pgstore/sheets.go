package pgstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// sheet holds the row of a lock: what changes with nearly each operation under it. So an operation reads one row and
// writes one.
type sheet struct {
	// counters: of those that the lock guards, the ones that changed last.
	counters []codec.CounterValue
	// day has what a key spent on its newest day; nil: nothing, or its sums have no room here.
	day *day
	// stored: the database has the row. changed: day must be written; so must counters that were touched.
	stored, changed bool
}

// seen holds what a node remembers of a sheet: which counters and which day it probably has.
type seen struct {
	counters []pay.Counter
	day      int32 // noDay: none
}

const noDay = -1

// hasSheet reports whether a lock has a sheet.
func hasSheet(lock string) bool {
	return strings.HasPrefix(lock, keyPrefix) || strings.HasPrefix(lock, "counter/")
}

// sheet returns the sheet of a lock, which was asked for.
func (s *state) sheet(lock string) *sheet {
	sh := s.sheets[lock]
	if sh == nil {
		sh = new(sheet)
		s.sheets[lock] = sh
	}
	return sh
}

// takeSheet takes a sheet, if the batch has its lock: else it may change any moment.
func takeSheet(s *state, f *answer) error {
	lock := string(f.b)
	if s.sheets[lock] != nil || !s.holds(lock) {
		return nil
	}
	list, err := codec.DecodeCounters(f.row)
	if err != nil {
		return fmt.Errorf("sheet %s: %w", lock, err)
	}
	sh := &sheet{counters: list, stored: true}
	if f.n != noDay {
		sh.day = &day{number: int32(f.n), row: f.payload, drawnRow: f.more} //nolint:gosec // of an integer column
	}
	s.sheets[lock] = sh
	for _, v := range list {
		s.counters[v.Counter] = v.Amount
	}
	return nil
}

// remember takes note of a lock that has a row, and of the sheet that the batch has left for it.
func (s *state) remember(lock string) {
	was, known := s.known.Get(lock)
	sh := s.sheets[lock]
	switch {
	case sh == nil && known:
		return
	case sh == nil:
		s.known.Add(lock, seen{day: noDay})
		return
	}
	is := seen{was.counters, noDay}
	if sh.day != nil {
		is.day = sh.day.number
	}
	same := func(v codec.CounterValue, c pay.Counter) bool { return v.Counter == c }
	if !slices.EqualFunc(sh.counters, was.counters, same) {
		is.counters = make([]pay.Counter, len(sh.counters))
		for i, v := range sh.counters {
			is.counters[i] = v.Counter
		}
	} else if known && is.day == was.day {
		return
	}
	s.known.Add(lock, is)
}

// sheetColumns holds the columns of sheets, as arrays.
type sheetColumns struct {
	name, counters, spent, drawn array[[]byte]
	key                          array[*string]
	day                          array[*int32]
}

func (c *sheetColumns) add(lock string, sh *sheet) {
	c.name, c.counters = append(c.name, []byte(lock)), append(c.counters, codec.EncodeCounters(sh.counters))
	if sh.day == nil {
		c.key, c.day, c.spent, c.drawn = append(c.key, nil), append(c.day, nil), append(c.spent, nil), append(c.drawn, nil)
		return
	}
	key := keyOfLock(lock)
	c.key, c.day = append(c.key, &key), append(c.day, &sh.day.number)
	c.spent, c.drawn = append(c.spent, sh.day.row), append(c.drawn, sh.day.drawnRow)
}

func (c *sheetColumns) args() []any { return []any{c.name, c.counters, c.key, c.day, c.spent, c.drawn} }

// flushSheets writes the sheets that the batch has changed. What has no room there stands apart.
func (s *state) flushSheets(b *pgx.Batch) {
	touched := map[string][]pay.Counter{}
	for _, c := range slices.Sorted(maps.Keys(s.touched)) {
		lock := lockOf(c)
		touched[lock] = append(touched[lock], c)
	}
	var changed, fresh sheetColumns
	var apart, gone array[[]byte]
	var amounts []string
	for lock := range touched {
		s.sheet(lock)
	}
	for lock, sh := range s.sheets {
		if len(touched[lock]) > 0 {
			next, over := s.arrange(sh.counters, touched[lock])
			for _, v := range next {
				if s.apart[v.Counter] {
					gone = append(gone, []byte(v.Counter))
				}
			}
			for _, v := range over {
				apart, amounts = append(apart, []byte(v.Counter)), append(amounts, v.Amount.String())
			}
			sh.counters = next
		} else if !sh.changed {
			continue
		}
		if sh.changed && sh.day.encode() > daySize {
			s.setApart(keyOfLock(lock), sh)
		}
		if sh.stored {
			changed.add(lock, sh)
		} else {
			fresh.add(lock, sh)
		}
	}
	if len(changed.name) > 0 {
		b.Queue(`UPDATE sheets s SET counters = u.counters, key_id = u.key_id, day = u.day, spent = u.spent, drawn = u.drawn
			FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::int[], $5::bytea[], $6::bytea[]) u (name, counters, key_id, day, spent, drawn) WHERE s.name = u.name`, changed.args()...)
	}
	if len(fresh.name) > 0 {
		b.Queue(`INSERT INTO sheets (name, counters, key_id, day, spent, drawn) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::int[], $5::bytea[], $6::bytea[])`, fresh.args()...)
	}
	if len(apart) > 0 {
		b.Queue(`INSERT INTO other_counters (name, amount) SELECT name, amount::numeric FROM unnest($1::bytea[], $2::text[]) u (name, amount)
			ON CONFLICT (name) DO UPDATE SET amount = excluded.amount`, apart, amounts)
	}
	if len(gone) > 0 {
		b.Queue(`DELETE FROM other_counters WHERE name = ANY($1)`, gone)
	}
}
