package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// The transaction that writes an event adds it to the sums of its UTC day, host and task, so that
// a chart reads a row a day and not a million events. The row of a day has one sum for all, and
// one for each of the first MaxDayNames hosts and tasks. Later names of the day, and names longer
// than pay.MaxSumName, share the sum pay.RestName. A name in a row has been there since its first
// event. So the order of events decides only which names have a sum of their own, and purser check
// can tell whether a row is right.
//
// The sum of the day has withdrawals, too. They always have the sum pay.WithdrawalHost among the hosts, by which
// readers tell them from what was spent. If there is no room, the last host gives its sum to pay.RestName. In rows
// from before, withdrawals may be in pay.RestName, on days with MaxDayNames hosts.

const (
	// MaxDayNames bounds the hosts, and the tasks, with a sum of their own.
	MaxDayNames = 32
	// DayVersion is the first byte of a row.
	DayVersion = 1
)

// Day holds the spend of a key on a day.
type Day struct {
	Total        pay.Sum
	Hosts, Tasks []pay.NameSum
}

// Add counts an event.
func (r *Day) Add(e *pay.SpendEvent) {
	r.Total.Event(e)
	if e.Withdraws() && IndexOfName(r.Hosts, pay.WithdrawalHost) < 0 && !HasRoom(r.Hosts) {
		r.Hosts = makeRoom(r.Hosts)
	}
	r.Hosts = addName(r.Hosts, e.SumHost(), e)
	r.Tasks = addName(r.Tasks, pay.SumName(e.Task), e)
}

// makeRoom has the last host share the sum pay.RestName.
func makeRoom(list []pay.NameSum) []pay.NameSum {
	rest := IndexOfName(list, pay.RestName)
	if rest < 0 {
		list[len(list)-1].Name = pay.RestName
		return list
	}
	last := len(list) - 1
	if last == rest {
		last--
	}
	list[rest].Add(list[last].Sum)
	return slices.Delete(list, last, last+1)
}

func addName(list []pay.NameSum, name string, e *pay.SpendEvent) []pay.NameSum {
	i := IndexOfName(list, name)
	if i < 0 && !HasRoom(list) {
		name = pay.RestName
		i = IndexOfName(list, name)
	}
	if i < 0 {
		i = len(list)
		list = append(list, pay.NameSum{Name: name})
	}
	list[i].Event(e)
	return list
}

// IndexOfName finds the sum of a name; -1: there is none.
func IndexOfName(list []pay.NameSum, name string) int {
	return slices.IndexFunc(list, func(s pay.NameSum) bool { return s.Name == name })
}

// HasRoom reports whether the list of a day takes another name. pay.RestName does not count.
func HasRoom(list []pay.NameSum) bool {
	n := len(list)
	if n >= MaxDayNames && IndexOfName(list, pay.RestName) >= 0 {
		n--
	}
	return n < MaxDayNames
}

// Encode writes the version, the sum of the day, and the lists of hosts and tasks, each behind
// its length. Numbers are varints; names and amounts follow their length.
func (r *Day) Encode() []byte {
	to := make([]byte, 0, 64+32*(len(r.Hosts)+len(r.Tasks)))
	to = appendSum(append(to, DayVersion), r.Total)
	for _, list := range [][]pay.NameSum{r.Hosts, r.Tasks} {
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

func appendAmount(to []byte, a money.Amount) []byte {
	at := len(to)
	to = a.AppendBytes(append(to, 0))
	to[at] = byte(len(to) - at - 1) //nolint:gosec // 32 at most
	return to
}

// DecodeDay decodes a row; nil is an empty one.
func DecodeDay(encoded []byte) (r Day, err error) {
	if encoded == nil {
		return r, nil
	}
	text := string(encoded) // names are parts of it
	err = readDay(encoded, func(s pay.Sum) { r.Total = s }, func(kind, left, from, to int, s pay.Sum) {
		list := &r.Hosts
		if kind == TaskSums {
			list = &r.Tasks
		}
		if *list == nil {
			*list = make([]pay.NameSum, 0, left+1) // an event may add one
		}
		*list = append(*list, pay.NameSum{Name: text[from:to], Sum: s})
	})
	return r, err
}

// The lists of a row.
const (
	HostSums = iota
	TaskSums
)

// VisitDay decodes a row without keeping anything of it. named may be nil.
func VisitDay(encoded []byte, total func(pay.Sum), named func(kind int, name []byte, s pay.Sum)) error {
	if named == nil {
		return readDay(encoded, total, nil)
	}
	return readDay(encoded, total, func(kind, _, from, to int, s pay.Sum) { named(kind, encoded[from:to], s) })
}

// VisitSpend decodes the row of a key's day for a visitor. Withdrawals are in no sum but their own.
func VisitSpend(keyID string, at time.Time, encoded []byte, visit pay.SpendDays) error {
	total := func(s pay.Sum) {
		if visit.Day != nil {
			visit.Day(keyID, at, s)
		}
	}
	of := [...]func(string, time.Time, []byte, pay.Sum){HostSums: visit.Host, TaskSums: visit.Task}
	named := func(kind int, name []byte, s pay.Sum) {
		if of[kind] != nil {
			of[kind](keyID, at, name, s)
		}
	}
	switch {
	case bytes.Contains(encoded, []byte(pay.WithdrawalHost)):
	case visit.Host == nil && visit.Task == nil:
		return VisitDay(encoded, total, nil)
	default:
		return VisitDay(encoded, total, named)
	}
	row, err := DecodeDay(encoded)
	if err != nil {
		return err
	}
	if s := row.withdrawn(); visit.Withdrawn != nil && s != (pay.Sum{}) {
		visit.Withdrawn(keyID, at, s)
	}
	if row.Total != (pay.Sum{}) {
		total(row.Total)
	}
	for kind, list := range [][]pay.NameSum{HostSums: row.Hosts, TaskSums: row.Tasks} {
		for _, s := range list {
			named(kind, []byte(s.Name), s.Sum)
		}
	}
	return nil
}

// withdrawn takes the withdrawals out of a row, and returns their sum. They have no task.
func (r *Day) withdrawn() (s pay.Sum) {
	i := IndexOfName(r.Hosts, pay.WithdrawalHost)
	if i < 0 {
		return s
	}
	s = r.Hosts[i].Sum
	r.Hosts = slices.Delete(r.Hosts, i, i+1)
	r.Total = r.Total.Without(s)
	i = IndexOfName(r.Tasks, "")
	if i < 0 {
		i = IndexOfName(r.Tasks, pay.RestName)
	}
	if i >= 0 {
		if r.Tasks[i].Sum = r.Tasks[i].Without(s); r.Tasks[i].Sum == (pay.Sum{}) {
			r.Tasks = slices.Delete(r.Tasks, i, i+1)
		}
	}
	return s
}

// readDay reads a row: the sum of the day, and the names, if asked for. It tells how many names of the list are left, with this
// one, and where in the row the name is.
func readDay(encoded []byte, total func(pay.Sum), named func(kind, left, from, to int, s pay.Sum)) error {
	if len(encoded) == 0 || encoded[0] != DayVersion {
		return errors.New("daily sums of an unknown encoding")
	}
	d := Parts{Rest: encoded[1:]}
	total(d.sum())
	for kind := range 2 {
		if named == nil && !d.Bad {
			return nil // the sum of the day is enough
		}
		n := d.Uvarint()
		if n > MaxDayNames+1 {
			d.Bad = true
		}
		for left := int(n); left > 0 && !d.Bad; left-- { //nolint:gosec // bounded
			size := len(d.Bytes(d.Uvarint()))
			to := len(encoded) - len(d.Rest)
			if s := d.sum(); !d.Bad {
				named(kind, left, to-size, to, s)
			}
		}
	}
	if d.Bad || len(d.Rest) > 0 {
		return errors.New("daily sums that are damaged")
	}
	return nil
}
