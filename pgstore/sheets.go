package pgstore

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// sheet holds the row of a lock: what changes with nearly each operation under it. So an operation reads one row and
// writes one.
type sheet struct {
	// counters: of those that the lock guards, the ones that changed last.
	counters []held
	// others are not in the row: counters that were read apart, which may be thousands, and new ones.
	others map[pay.Counter]*held
	// day has what a key spent on its newest day; nil: nothing, or its sums have no room here.
	day *day
	// stored: the database has the row. changed: day must be written. touched: so must counters.
	stored, changed, touched bool
}

const noDay = -1 // of a sheet without a day

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
	if !s.holds(lock) {
		return nil
	}
	sh := s.sheet(lock)
	if sh.stored {
		return nil
	}
	sh.stored, sh.counters = true, make([]held, 0, usualCounters)
	err := codec.VisitCounters(f.row, func(v codec.CounterValue) { sh.counters = append(sh.counters, held{CounterValue: v}) })
	if err != nil {
		return fmt.Errorf("sheet %s: %w", lock, err)
	}
	if f.n != noDay {
		sh.day = &day{number: int32(f.n), row: f.payload, drawnRow: f.more} //nolint:gosec // of an integer column
	}
	return nil
}

// usualCounters is the room for the counters of a sheet.
const usualCounters = 8

// sheetColumns holds the columns of sheets, as arrays.
type sheetColumns struct {
	name, counters, spent, drawn array[[]byte]
	key                          array[*string]
	day                          array[*int32]
}

// newSheetColumns has room for n sheets.
func newSheetColumns(n int) *sheetColumns {
	bytes := func() array[[]byte] { return make(array[[]byte], 0, n) }
	return &sheetColumns{bytes(), bytes(), bytes(), bytes(), make(array[*string], 0, n), make(array[*int32], 0, n)}
}

func (c *sheetColumns) add(lock string, sh *sheet) {
	counters := codec.EncodeCounters(len(sh.counters), func(i int) codec.CounterValue { return sh.counters[i].CounterValue })
	c.name, c.counters = append(c.name, []byte(lock)), append(c.counters, counters)
	if sh.day == nil {
		c.key, c.day, c.spent, c.drawn = append(c.key, nil), append(c.day, nil), append(c.spent, nil), append(c.drawn, nil)
		return
	}
	key := keyOfLock(lock)
	c.key, c.day = append(c.key, &key), append(c.day, &sh.day.number)
	c.spent, c.drawn = append(c.spent, sh.day.row), append(c.drawn, sh.day.drawnRow)
}

func (c *sheetColumns) args() []any { return []any{c.name, c.counters, c.key, c.day, c.spent, c.drawn} }

// flushSheets writes the sheets that the batch has changed. Counters and days without room there stand apart.
func (s *state) flushSheets(b *pgx.Batch) {
	changed, fresh := newSheetColumns(len(s.sheets)), newSheetColumns(0)
	var apart, gone array[[]byte]
	var amounts []string
	for lock, sh := range s.sheets {
		if sh.touched {
			over, left := sh.arrange()
			for _, h := range over {
				apart, amounts = append(apart, []byte(h.Counter)), append(amounts, h.Amount.String())
			}
			gone = append(gone, left...)
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
		b.Queue(updateSheets, changed.args()...)
	}
	if len(fresh.name) > 0 {
		b.Queue(insertSheets, fresh.args()...)
	}
	if len(apart) > 0 {
		b.Queue(`INSERT INTO other_counters (name, amount) SELECT name, amount::numeric FROM unnest($1::bytea[], $2::text[]) u (name, amount)
			ON CONFLICT (name) DO UPDATE SET amount = excluded.amount`, apart, amounts)
	}
	if len(gone) > 0 {
		b.Queue(`DELETE FROM other_counters WHERE name = ANY($1)`, gone)
	}
}

const (
	updateSheets = `UPDATE sheets s SET counters = u.counters, key_id = u.key_id, day = u.day, spent = u.spent, drawn = u.drawn
		FROM (SELECT unnest($1::bytea[]) AS name, unnest($2::bytea[]) counters, unnest($3::text[]) key_id, unnest($4::int[]) AS day, unnest($5::bytea[]) spent,
		unnest($6::bytea[]) drawn) u WHERE s.name = u.name`
	insertSheets = `INSERT INTO sheets (name, counters, key_id, day, spent, drawn)
		SELECT unnest($1::bytea[]), unnest($2::bytea[]), unnest($3::text[]), unnest($4::int[]), unnest($5::bytea[]), unnest($6::bytea[])`
)
