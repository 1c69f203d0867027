package policy

import (
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
)

// A total keeps its beginning whatever else of it or of the policy changes, until it is restarted or taken away.
func TestTotalsBegin(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		moment, err := time.Parse(time.RFC3339, "2026-11-30T"+clock+"+01:00")
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	with := func(totals map[string]*Total) *Policy {
		pol := &Policy{Tasks: map[string]Budget{}}
		for name, total := range totals {
			pol.Tasks[name] = Budget{Total: total}
		}
		return pol
	}
	five := &Total{Amount: money.New(5)}
	first, err := with(map[string]*Total{"a": five, "b": nil}).Begun(nil, at("09:12:31"))
	if err != nil || five.Begin != (time.Time{}) {
		t.Fatalf("%v, %v", err, five)
	}
	if begin := first.Tasks["a"].Total.Begin; !begin.Equal(at("09:12:00")) || begin.Location() != time.UTC || first.Tasks["b"].Total != nil {
		t.Fatalf("%+v", first.Tasks)
	}
	for name, c := range map[string]struct {
		total *Total
		now   string
		begin string // "": it is refused
		field string
	}{
		"the same":           {&Total{Amount: money.New(5)}, "10:00:00", "09:12:00", ""},
		"more":               {&Total{Amount: money.New(9)}, "10:00:00", "09:12:00", ""},
		"another end":        {&Total{Amount: money.New(5), Until: at("18:00:00")}, "10:00:00", "09:12:00", ""},
		"a begin of its own": {&Total{Amount: money.New(5), Begin: at("01:00:00")}, "10:00:00", "09:12:00", ""},
		"a restart":          {&Total{Amount: money.New(5), Restart: true}, "10:00:59", "10:00:00", ""},
		"a restart at once":  {&Total{Amount: money.New(5), Restart: true}, "09:12:59", "", "tasks[a].total.restart"},
		"an end that passed": {&Total{Amount: money.New(5), Until: at("10:00:00")}, "10:00:00", "", "tasks[a].total.until"},
	} {
		got, err := with(map[string]*Total{"a": c.total}).Begun(first, at(c.now))
		wrong, malformed := errors.AsType[*FieldError](err)
		switch {
		case c.begin == "":
			if !malformed || wrong.Field != c.field {
				t.Errorf("%s: %v, want a wrong %s", name, err, c.field)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !got.Tasks["a"].Total.Begin.Equal(at(c.begin)) || got.Tasks["a"].Total.Restart:
			t.Errorf("%s: %+v", name, got.Tasks["a"].Total)
		}
	}
	// An end that was set before may be past when other limits change.
	ended := with(map[string]*Total{"a": {Amount: money.New(5), Until: at("08:00:00"), Begin: at("07:00:00")}})
	if again, err := ended.Begun(ended, at("10:00:00")); err != nil || !again.Tasks["a"].Total.Ended(at("08:00:00")) {
		t.Errorf("%v", err)
	}
	none, err := with(nil).Begun(first, at("09:20:00"))
	if err != nil {
		t.Fatal(err)
	}
	if anew, err := with(map[string]*Total{"a": five}).Begun(none, at("09:20:30")); err != nil || !anew.Tasks["a"].Total.Begin.Equal(at("09:20:00")) {
		t.Errorf("%v", err)
	}
}

// A change of a total permits more if it leaves the task more money or more time.
func TestTotalsThatPermitMore(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	until := func(amount uint64, hours int) *Total {
		total := &Total{Amount: money.New(amount), Begin: noon}
		if hours > 0 {
			total.Until = noon.Add(time.Duration(hours) * time.Hour)
		}
		return total
	}
	anew := until(5, 1)
	anew.Begin = noon.Add(time.Minute)
	for name, c := range map[string]struct {
		was, now *Total
		more     bool
	}{
		"the same": {until(5, 1), until(5, 1), false}, "less": {until(5, 1), until(4, 1), false}, "more": {until(5, 1), until(6, 1), true},
		"earlier": {until(5, 2), until(5, 1), false}, "later": {until(5, 1), until(5, 2), true}, "without an end": {until(5, 1), until(5, 0), true},
		"taken away": {until(5, 1), nil, true}, "set": {nil, until(5, 1), false}, "with an end": {until(5, 0), until(5, 1), false},
		"anew": {until(5, 1), anew, true}, "restarted": {until(5, 1), &Total{Amount: money.New(5), Until: until(5, 1).Until, Restart: true}, true},
		"of a form, without a beginning": {until(5, 1), &Total{Amount: money.New(5), Until: until(5, 1).Until}, false},
	} {
		of := func(total *Total) Policy { return Policy{Tasks: map[string]Budget{"a": {Total: total}}} }
		if got := of(c.now).PermitsMore(of(c.was)); len(got) > 0 != c.more {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Only tasks have totals, and a total has an amount.
func TestTotalsThatAreRefused(t *testing.T) {
	t.Parallel()
	for field, pol := range map[string]Policy{
		"hosts[a.example].total": {Hosts: map[string]Budget{"a.example": {Total: &Total{Amount: money.New(5)}}}},
		"tasks[a].total.amount":  {Tasks: map[string]Budget{"a": {Total: &Total{}}}},
	} {
		if wrong, is := errors.AsType[*FieldError](pol.Validate()); !is || wrong.Field != field {
			t.Errorf("%s: %v", field, wrong)
		}
	}
}
