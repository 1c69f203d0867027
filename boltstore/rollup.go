package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// The transaction that writes an event adds it to the sums of its UTC day, host and task, so that
// a chart reads a row a day and not a million events. The row of a day has one sum for all, and
// one for each of the first maxDayNames hosts and tasks. Later names of the day, and names longer
// than pay.MaxSumName, share the sum pay.RestName. A name in a row has been there since its first
// event. So the order of events decides only which names have a sum of their own, and purser check
// can tell whether a row is right.

const (
	maxDayNames = 32
	// rollupVersion is the first byte of a row.
	rollupVersion = 1
)

// dayRow holds the spend of a key on a day.
type dayRow struct {
	total        pay.Sum
	hosts, tasks []pay.NameSum
}

// dayKey makes the key of the row of a day.
func dayKey(keyID string, day time.Time) []byte { return joinKey(keyID, dayNumber(day)) }

// dayNumber encodes the days since 1970.
func dayNumber(day time.Time) string {
	return encodeNumber(day.Unix() / int64(24*time.Hour/time.Second))
}

// dayIn decodes a day of dayNumber.
func dayIn(part []byte) time.Time {
	return time.Unix(int64(decodeNumber(part))*int64(24*time.Hour/time.Second), 0).UTC()
}

// add counts an event.
func (r *dayRow) add(e *pay.SpendEvent) {
	r.total.Event(e)
	r.hosts = addName(r.hosts, e.Host, e)
	r.tasks = addName(r.tasks, e.Task, e)
}

func addName(list []pay.NameSum, name string, e *pay.SpendEvent) []pay.NameSum {
	name = pay.SumName(name)
	i := indexOfName(list, name)
	if i < 0 && !hasRoom(list) {
		name = pay.RestName
		i = indexOfName(list, name)
	}
	if i < 0 {
		i = len(list)
		list = append(list, pay.NameSum{Name: name})
	}
	list[i].Event(e)
	return list
}

func indexOfName(list []pay.NameSum, name string) int {
	return slices.IndexFunc(list, func(s pay.NameSum) bool { return s.Name == name })
}

// hasRoom reports whether the list of a day takes another name. pay.RestName does not count.
func hasRoom(list []pay.NameSum) bool {
	n := len(list)
	if n >= maxDayNames && indexOfName(list, pay.RestName) >= 0 {
		n--
	}
	return n < maxDayNames
}

// rollUp counts an event in its day. It leaves a damaged row to purser check, because money that
// has moved must be booked all the same.
func (b *batch) rollUp(e *pay.SpendEvent) error {
	key := dayKey(e.KeyID, e.Created)
	was := b.get(spendDaysBucket, key)
	row := b.days[string(key)]
	if row == nil {
		day, err := decodeDay(was)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		row = &day
		b.days[string(key)] = row
	}
	row.add(e)
	return b.replace(spendDaysBucket, key, was, row.encode())
}

// encode writes the version, the sum of the day, and the lists of hosts and tasks, each behind
// its length. Numbers are varints; names and amounts follow their length.
func (r *dayRow) encode() []byte {
	to := make([]byte, 0, 64+32*(len(r.hosts)+len(r.tasks)))
	to = appendSum(append(to, rollupVersion), r.total)
	for _, list := range [][]pay.NameSum{r.hosts, r.tasks} {
		to = binary.AppendUvarint(to, uint64(len(list)))
		for _, s := range list {
			to = append(binary.AppendUvarint(to, uint64(len(s.Name))), s.Name...)
			to = appendSum(to, s.Sum)
		}
	}
	return to
}

func appendSum(to []byte, s pay.Sum) []byte {
	return appendAmount(appendAmount(binary.AppendUvarint(to, uint64(s.Count)), s.Amount), s.Corrected)
}

func appendAmount(to []byte, a x402.Amount) []byte {
	b := a.Bytes32()
	i := 0
	for i < len(b) && b[i] == 0 {
		i++
	}
	return append(append(to, byte(len(b)-i)), b[i:]...)
}

// decodeDay decodes a row; nil is an empty one.
func decodeDay(encoded []byte) (r dayRow, err error) {
	if encoded == nil {
		return r, nil
	}
	err = visitDay(encoded, func(s pay.Sum) { r.total = s }, func(kind int, name []byte, s pay.Sum) {
		list := &r.hosts
		if kind == taskSums {
			list = &r.tasks
		}
		*list = append(*list, pay.NameSum{Name: string(name), Sum: s})
	})
	return r, err
}

// The lists of a row.
const (
	hostSums = iota
	taskSums
)

// visitDay decodes a row without keeping anything of it. named may be nil.
func visitDay(encoded []byte, total func(pay.Sum), named func(kind int, name []byte, s pay.Sum)) error {
	if len(encoded) == 0 || encoded[0] != rollupVersion {
		return errors.New("daily sums of an unknown encoding")
	}
	d := partReader{rest: encoded[1:]}
	total(d.sum())
	for kind := range 2 {
		if named == nil && !d.bad {
			return nil // the sum of the day is enough
		}
		n := d.uvarint()
		if n > maxDayNames+1 {
			d.bad = true
		}
		for ; n > 0 && !d.bad; n-- {
			name := d.bytes(d.uvarint())
			if s := d.sum(); !d.bad {
				named(kind, name, s)
			}
		}
	}
	if d.bad || len(d.rest) > 0 {
		return errors.New("daily sums that are damaged")
	}
	return nil
}

// partReader reads the parts of a row, or of a record of the journal. bad reports that a part was missing.
type partReader struct {
	rest []byte
	bad  bool
}

func (d *partReader) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *partReader) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *partReader) amount() x402.Amount {
	b := d.bytes(1)
	if d.bad || b[0] > 32 {
		d.bad = true
		return x402.Amount{}
	}
	b = d.bytes(uint64(b[0]))
	if len(b) <= 8 {
		var n uint64
		for _, digit := range b {
			n = n<<8 | uint64(digit)
		}
		return x402.NewAmount(n)
	}
	a, _ := x402.AmountFromBig(new(big.Int).SetBytes(b))
	return a
}

func (d *partReader) sum() pay.Sum {
	n := d.uvarint()
	return pay.Sum{Count: int(n & (1<<62 - 1)), Amount: d.amount(), Corrected: d.amount()}
}

// SpendSummary adds up what the keys spent from one UTC day to another.
func (d *DB) SpendSummary(ctx context.Context, keyIDs []string, from, to time.Time) (pay.Summary, error) {
	t := pay.NewTally(from, to)
	err := d.VisitSpendDays(ctx, keyIDs, from, to, pay.SpendDays{
		Day:  func(_ string, day time.Time, s pay.Sum) { t.Day(day, s) },
		Host: func(_ string, _ time.Time, name []byte, s pay.Sum) { t.Host(name, s) },
		Task: func(_ string, _ time.Time, name []byte, s pay.Sum) { t.Task(name, s) },
	})
	if err != nil {
		return pay.Summary{}, err
	}
	return t.Summary(), nil
}

// VisitSpendDays visits the daily sums of the keys from one UTC day to another.
func (d *DB) VisitSpendDays(ctx context.Context, keyIDs []string, from, to time.Time, visit pay.SpendDays) error {
	first, last := dayNumber(time.Unix(0, 0)), dayNumber(pay.DayOf(to))
	if !from.IsZero() {
		first = dayNumber(pay.DayOf(from))
	}
	next := first // of the first key that is left
	for len(keyIDs) > 0 {
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			c := tx.Bucket(spendDaysBucket).Cursor()
			for rows := 0; len(keyIDs) > 0 && rows < scanRows; {
				prefix := keyPrefix(keyIDs[0])
				k, row := c.Seek(append(slices.Clone(prefix), next...))
				rows++
				for ; k != nil && len(k) == len(prefix)+8 && string(k[:len(prefix)]) == string(prefix); k, row = c.Next() {
					number := k[len(prefix):]
					if string(number) > last {
						break
					}
					if rows == scanRows {
						next = string(number)
						return nil
					}
					rows++
					if err := visitSpendDay(keyIDs[0], dayIn(number), row, visit); err != nil {
						return err
					}
				}
				keyIDs, next = keyIDs[1:], first
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// visitSpendDay decodes a row as far as the visitor wants it.
func visitSpendDay(keyID string, day time.Time, row []byte, visit pay.SpendDays) error {
	total := func(s pay.Sum) {
		if visit.Day != nil {
			visit.Day(keyID, day, s)
		}
	}
	var named func(kind int, name []byte, s pay.Sum)
	if visit.Host != nil || visit.Task != nil {
		named = func(kind int, name []byte, s pay.Sum) {
			if to := [...]func(string, time.Time, []byte, pay.Sum){hostSums: visit.Host, taskSums: visit.Task}[kind]; to != nil {
				to(keyID, day, name, s)
			}
		}
	}
	if err := visitDay(row, total, named); err != nil {
		return fmt.Errorf("spend of key %s on %s: %w", keyID, day.Format(time.DateOnly), err)
	}
	return nil
}
