package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// sheetSize bounds the bytes of a sheet: the row with the counters that one lock guards and that changed last. An
// operation under the lock reads all of it, and writes all of it if one counter changes.
const sheetSize = 1000

// lockOf names the lock that guards a counter.
func lockOf(c pay.Counter) string {
	if key, _ := c.Key(); key != "" {
		return keyLock(key)
	}
	return "counter/" + string(c.Guard())
}

// lockOf names the lock of a counter. Counters of one key follow each other, so that the last name often serves again.
func (s *state) lockOf(c pay.Counter) string {
	key, _ := c.Key()
	if key == "" {
		return lockOf(c)
	}
	if key != s.lastKey {
		s.lastKey, s.lastLock = key, keyLock(key)
	}
	return s.lastLock
}

// locksOf names the lock of a key and those of counters.
func locksOf(keyID string, list []pay.Counter) []string {
	names := []string{keyLock(keyID)}
	for _, c := range list {
		if id, _ := c.Key(); c != "" && id != keyID {
			names = append(names, lockOf(c))
		}
	}
	return names
}

// needs fails with errLocks unless the batch has a lock. A repeat takes back the places of an earlier payment, which
// its call cannot name.
func (s *state) needs(lock string) error {
	if s.rehearsed != nil || s.holds(lock) {
		return nil
	}
	s.unlocked = append(s.unlocked, lock)
	return errLocks
}

// held is a counter whose lock a batch has.
type held struct {
	codec.CounterValue
	// apart: it has a row of its own. touched: it was changed.
	apart, touched bool
}

func byName(a, b held) int { return codec.ByName(a.CounterValue, b.CounterValue) }

func touchedFirst(a, b held) int {
	switch {
	case a.touched == b.touched:
		return 0
	case a.touched:
		return -1
	}
	return 1
}

// find returns a counter under the lock; nil: it was not read, or nothing has it.
func (sh *sheet) find(c pay.Counter) *held {
	for i := range sh.counters {
		if sh.counters[i].Counter == c {
			return &sh.counters[i]
		}
	}
	return sh.others[c]
}

// add adds a counter that is not in the row.
func (sh *sheet) add(h held) {
	if sh.others == nil {
		sh.others = map[pay.Counter]*held{}
	}
	sh.others[h.Counter] = &h
}

// set changes a counter.
func (sh *sheet) set(v codec.CounterValue) {
	sh.touched = true
	if h := sh.find(v.Counter); h != nil {
		h.Amount, h.touched = v.Amount, true
		return
	}
	sh.add(held{CounterValue: v, touched: true})
}

// each visits the counters under the lock that are known.
func (sh *sheet) each(visit func(codec.CounterValue)) {
	for _, h := range sh.counters {
		visit(h.CounterValue)
	}
	for _, h := range sh.others {
		visit(h.CounterValue)
	}
}

// find returns a counter whose lock the batch has; nil: it was not read, or nothing has it.
func (s *state) find(c pay.Counter) *held {
	if sh := s.sheets[s.lockOf(c)]; sh != nil {
		return sh.find(c)
	}
	return nil
}

// takeCounter takes a counter that stands apart, if the batch has its lock.
func takeCounter(s *state, f *answer) error {
	name := pay.Counter(f.b)
	lock := s.lockOf(name)
	if s.find(name) != nil || !s.holds(lock) {
		return nil
	}
	amount, err := money.Parse(f.id)
	if err != nil {
		return fmt.Errorf("counter %s: %w", name, err)
	}
	s.sheet(lock).add(held{CounterValue: codec.CounterValue{Counter: name, Amount: amount}, apart: true})
	return nil
}

// counter reads a counter whose lock the batch has: errAsk, errLocks.
func (s *state) counter(c pay.Counter) (money.Amount, error) {
	if h := s.find(c); h != nil {
		return h.Amount, nil
	}
	lock := s.lockOf(c)
	if err := s.needs(lock); err != nil {
		return money.Amount{}, err
	}
	if _, err := s.ask(askSheet, lock, ""); err != nil {
		return money.Amount{}, err
	}
	_, err := s.ask(askCounter, string(c), "")
	if s.rehearsed != nil {
		return money.New(1), nil // with zero, a decision would look for room for a new counter
	}
	return money.Amount{}, err // none has it: zero
}

// arrange decides which counters stand in the sheet, those that were touched last in front. It returns those that must be
// written apart, and the names of those that leave the rows of their own. A counter that stands apart enters a sheet only
// if it displaces none: else they would take turns.
func (sh *sheet) arrange() (over []held, gone array[[]byte]) {
	var fresh, last []held
	for _, h := range sh.others {
		switch {
		case h.touched && h.apart:
			last = append(last, *h)
		case h.touched:
			fresh = append(fresh, *h)
		}
	}
	slices.SortFunc(fresh, byName)
	slices.SortFunc(last, byName)
	slices.SortStableFunc(sh.counters, touchedFirst)
	list := sh.counters
	if len(fresh)+len(last) > 0 {
		list = slices.Concat(fresh, list, last)
	}
	size, n := 0, 0
	for _, h := range list {
		switch size += h.Size(); {
		case size <= sheetSize:
			if h.apart {
				gone = append(gone, []byte(h.Counter))
			}
			n++
		case h.apart || !h.Amount.IsZero(): // zero is the amount of a counter that is nowhere
			over = append(over, h)
		}
	}
	sh.counters = list[:n]
	return over, gone
}

// Counter reads a counter.
func (d *DB) Counter(ctx context.Context, c pay.Counter) (amount money.Amount, err error) {
	var row []byte
	var apart *string
	err = get(ctx, d.pool, nil, `SELECT (SELECT counters FROM sheets WHERE name = $1), (SELECT amount::text FROM other_counters WHERE name = $2)`,
		[]any{[]byte(lockOf(c)), []byte(c)}, func(r pgx.Rows) error { return r.Scan(&row, &apart) })
	if err != nil {
		return amount, err
	}
	if apart != nil {
		return money.Parse(*apart)
	}
	list, err := codec.DecodeCounters(row)
	if i := slices.IndexFunc(list, func(v codec.CounterValue) bool { return v.Counter == c }); i >= 0 {
		amount = list[i].Amount
	}
	return amount, err
}

// VisitCounters visits the counters above zero whose names begin with a prefix.
func (d *DB) VisitCounters(ctx context.Context, prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
	lock := ""
	if key, complete := prefix.Key(); complete {
		lock = keyLock(key)
	}
	more := true
	return visitCounters(ctx, d.pool, prefix, lock, func(v codec.CounterValue) error {
		more = more && (v.Amount.IsZero() || visit(v.Counter, v.Amount))
		return nil
	})
}

// visitCounters visits the counters whose names begin with a prefix, in order: those that one lock guards; "": all. It
// needs memory for those in sheets.
func visitCounters(ctx context.Context, q querier, prefix pay.Counter, lock string, visit func(codec.CounterValue) error) error {
	sql := `SELECT 2 AS turn, name, NULL::bytea, amount::text FROM other_counters WHERE name >= $1 AND name < $2
		UNION ALL SELECT 1, name, counters, NULL FROM sheets WHERE true`
	args := []any{[]byte(prefix), []byte(endOfPrefix(string(prefix)))}
	if lock != "" {
		sql, args = sql+` AND name = $3`, append(args, []byte(lock))
	}
	var inSheets []codec.CounterValue
	sorted := false
	before := func(c pay.Counter) (err error) {
		if !sorted {
			slices.SortFunc(inSheets, codec.ByName)
			sorted = true
		}
		for err == nil && len(inSheets) > 0 && (c == "" || inSheets[0].Counter < c) {
			err = visit(inSheets[0])
			inSheets = inSheets[1:]
		}
		return err
	}
	err := each(ctx, q, func(r pgx.Rows) error {
		var turn int
		var name, row []byte
		var apart *string
		if err := r.Scan(&turn, &name, &row, &apart); err != nil {
			return err
		}
		if apart != nil {
			c := pay.Counter(name)
			amount, err := money.Parse(*apart)
			if err == nil {
				err = before(c)
			}
			if err == nil {
				err = visit(codec.CounterValue{Counter: c, Amount: amount})
			}
			return err
		}
		list, err := codec.DecodeCounters(row)
		for _, v := range list {
			if strings.HasPrefix(string(v.Counter), string(prefix)) {
				inSheets = append(inSheets, v)
			}
		}
		return err
	}, sql+` ORDER BY turn, name`, args...)
	if err != nil {
		return err
	}
	return before("")
}
