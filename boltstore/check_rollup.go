package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// spendDays compares the daily sums with the events that make them up. Events come in the order
// of their keys, so only the days of one key are in memory.
type spendDays struct {
	*checker
	keyID string
	days  map[string]*dayCheck // of that key, by the entry's key
	found int                  // rows that were compared
}

// dayCheck adds up the events of a day.
type dayCheck struct {
	was  codec.Day // as it stands in the store
	want codec.Day // the same names
	// loose holds the sums of hosts, and of tasks, whose names are short enough but not in the
	// row.
	loose [2]pay.Sum
}

// add counts an event.
func (d *spendDays) add(e *pay.SpendEvent) {
	if d.days == nil || e.KeyID != d.keyID {
		d.compare()
		d.keyID, d.days = e.KeyID, map[string]*dayCheck{}
	}
	key := dayKey(e.KeyID, e.Created)
	day := d.days[string(key)]
	if day == nil {
		day = new(dayCheck)
		row := d.tx.Bucket(spendDaysBucket).Get(key)
		was, err := codec.DecodeDay(row)
		if err != nil {
			d.fault("spend of key %s on %s: %v", e.KeyID, dayName(key), err)
		} else if row == nil {
			d.fault("spend of key %s on %s is not summed up", e.KeyID, dayName(key))
		}
		if row != nil {
			d.found++
		}
		if day.was = was; err != nil || row == nil || dayIn(key[len(key)-8:]).Before(d.report.Removed) {
			day = nil // said once, or it has events that are gone
		}
		d.days[string(key)] = day
	}
	if day != nil {
		day.add(e)
	}
}

func (c *dayCheck) add(e *pay.SpendEvent) {
	c.want.Total.Event(e)
	for i, part := range []struct {
		was  []pay.NameSum
		want *[]pay.NameSum
		name string
	}{{c.was.Hosts, &c.want.Hosts, e.SumHost()}, {c.was.Tasks, &c.want.Tasks, e.Task}} {
		if part.name != pay.RestName && codec.IndexOfName(part.was, part.name) < 0 {
			if pay.SumName(part.name) == part.name {
				c.loose[i].Event(e)
			}
			part.name = pay.RestName
		}
		at := codec.IndexOfName(*part.want, part.name)
		if at < 0 {
			at = len(*part.want)
			*part.want = append(*part.want, pay.NameSum{Name: part.name})
		}
		(*part.want)[at].Event(e)
	}
}

// compare reports the differences in the days of a key.
func (d *spendDays) compare() {
	for _, key := range slices.Sorted(maps.Keys(d.days)) {
		day := d.days[key]
		if day == nil {
			continue
		}
		what := fmt.Sprintf("spend of key %s on %s", d.keyID, dayName([]byte(key)))
		if day.was.Total != day.want.Total {
			d.fault("%s is summed up as %s, its events make %s", what, sumText(day.was.Total), sumText(day.want.Total))
		}
		for i, part := range []struct {
			of        string
			was, want []pay.NameSum
		}{{"host", day.was.Hosts, day.want.Hosts}, {"task", day.was.Tasks, day.want.Tasks}} {
			d.compareNames(what+" by "+part.of, part.was, part.want)
			if day.loose[i] != (pay.Sum{}) && codec.HasRoom(part.was) {
				d.fault("%s has no sum of its own for all, although there is room", what+" by "+part.of)
			}
		}
	}
}

func (d *spendDays) compareNames(what string, was, want []pay.NameSum) {
	names := 0
	for i, s := range was {
		if s.Name != pay.RestName {
			names++
		}
		if codec.IndexOfName(was, s.Name) != i {
			d.fault("%s has %q twice", what, s.Name)
		}
		var events pay.Sum
		at := codec.IndexOfName(want, s.Name)
		if at >= 0 {
			events = want[at].Sum
		}
		if at < 0 || s.Sum != events {
			d.fault("%s is summed up for %q as %s, the events make %s", what, s.Name, sumText(s.Sum), sumText(events))
		}
	}
	if names > codec.MaxDayNames {
		d.fault("%s has %d names of %d", what, names, codec.MaxDayNames)
	}
	for _, s := range want {
		if codec.IndexOfName(was, s.Name) < 0 {
			d.fault("%s is not summed up for %q, the events make %s", what, s.Name, sumText(s.Sum))
		}
	}
}

// end compares the last key, and looks for sums of days without events.
func (d *spendDays) end(ctx context.Context) error {
	d.compare()
	n := 0
	if err := d.each(ctx, spendDaysBucket, func(_, _ []byte) { n++ }); err != nil || n == d.found {
		return err
	}
	var last []byte // key, and the days on which it spent
	var days map[int64]bool
	return d.each(ctx, spendDaysBucket, func(k, _ []byte) {
		keyID, day, _ := bytes.Cut(k, []byte{0})
		if days == nil || !bytes.Equal(keyID, last) {
			last, days = bytes.Clone(keyID), d.spentOn(keyID)
		}
		if len(day) != 8 || !days[dayIn(day).Unix()] && !dayIn(day).Before(d.report.Removed) {
			d.fault("%s has an entry %q, and no spend event is of that key and day", spendDaysBucket, k)
		}
	})
}

// spentOn returns the days of the events of a key.
func (d *spendDays) spentOn(keyID []byte) map[int64]bool {
	days, prefix := map[int64]bool{}, append(bytes.Clone(keyID), 0)
	c := d.tx.Bucket(eventsBucket).Cursor()
	for k, row := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, row = c.Next() {
		if e, err := decodeEvent(k, row); err == nil {
			days[pay.DayOf(e.Created).Unix()] = true
		}
	}
	return days
}

func dayName(key []byte) string {
	if len(key) < 8 {
		return "no day"
	}
	return dayIn(key[len(key)-8:]).Format(time.DateOnly)
}

func sumText(s pay.Sum) string {
	return fmt.Sprintf("%d payments, %s, %s taken back", s.Count, s.Amount, s.Corrected)
}
