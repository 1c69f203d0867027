package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// lanesShown is the number of keys, hosts or tasks that the chart shows apart. The others are one.
const lanesShown = 5

// lane holds the spend of a key, host or task in the days of the chart.
type lane struct {
	name, path string
	total      pay.Sum
	days       map[int64]pay.Sum // by the day's Unix time
}

func (l *lane) add(day time.Time, s pay.Sum) {
	l.total.Add(s)
	at := day.Unix()
	sum := l.days[at]
	sum.Add(s)
	l.days[at] = sum
}

// split adds up spend by key, host or task.
type split struct {
	view  chartView
	keys  map[string]string // names by id
	named map[string]*lane
}

func newSplit(view chartView, keys map[string]string) *split {
	return &split{view, keys, map[string]*lane{}}
}

// maxLanes bounds the names that are told apart while they are added up.
const maxLanes = 10_000

func (s *split) add(name string, day time.Time, sum pay.Sum) {
	l := s.named[name]
	if l == nil {
		if len(s.named) >= maxLanes {
			name = pay.RestName
		}
		if l = s.named[name]; l == nil {
			l = &lane{days: map[int64]pay.Sum{}}
			s.named[name] = l
		}
	}
	l.add(day, sum)
}

func (s *split) key(id string, day time.Time, sum pay.Sum) {
	if s.view.by == splitKey {
		s.add(id, day, sum)
	}
}

func (s *split) host(day time.Time, name []byte, sum pay.Sum) {
	if s.view.by == splitHost {
		s.add(string(name), day, sum)
	}
}

func (s *split) task(day time.Time, name []byte, sum pay.Sum) {
	if s.view.by == splitTask {
		s.add(string(name), day, sum)
	}
}

// lanes returns the largest ones, and the others as one.
func (s *split) lanes() []lane {
	ids := make([]string, 0, len(s.named))
	for id := range s.named {
		if id != pay.RestName {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(drawn(s.named[b].total), drawn(s.named[a].total)), strings.Compare(a, b))
	})
	var list []lane
	others := lane{name: "all others", days: map[int64]pay.Sum{}}
	rest := func(l *lane) {
		for at, sum := range l.days {
			others.add(time.Unix(at, 0), sum)
		}
	}
	for i, id := range ids {
		l := s.named[id]
		if i >= lanesShown {
			rest(l)
			continue
		}
		l.name, l.path = s.link(id)
		list = append(list, *l)
	}
	if l := s.named[pay.RestName]; l != nil {
		rest(l)
	}
	if len(others.days) > 0 {
		list = append(list, others)
	}
	return list
}

// link returns the name of a key, host or task, and the path of its spend in these days.
func (s *split) link(id string) (name, path string) {
	f := filter{period: s.view.period}
	switch {
	case s.view.by == splitKey:
		f.KeyID = id
		return cmp.Or(s.keys[id], "Key "+tail(id)), f.path()
	case id == "" && s.view.by == splitHost:
		return "without a host", ""
	case id == "":
		return "without a task", ""
	case s.view.by == splitHost:
		f.Host = id
	default:
		f.Task = id
	}
	return cut(id, maxName), f.path()
}
