package environment

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

// own is the prefix of purser's variables. A variable of purser that is set to nothing counts as unset.
const own = "PURSER_"

// Layer lays the variables of files over those of a process. A variable that the process was
// started with comes first, unless a file says the same: service managers read such files, too. A
// Layer is safe for concurrent use.
type Layer struct {
	// Lookup, Set and Unset change the environment.
	Lookup func(name string) (string, bool)
	Set    func(name, value string) error
	Unset  func(name string) error

	mu   sync.Mutex
	said map[string]owned
}

// owned is a variable that a file rules.
type owned struct {
	Variable
	adopted bool // the process was started with it
}

// OfProcess returns a Layer over the environment of this process.
func OfProcess() *Layer { return &Layer{Lookup: os.LookupEnv, Set: os.Setenv, Unset: os.Unsetenv} }

// Change says what Apply did.
type Change struct {
	Changed []string   // names of variables that have another value now, or none
	Hidden  []Variable // variables that the process was started with, with other values
	Stuck   []Variable // variables that a file had and the process was started with
	Unread  error      // why a file was left out; nil if none was
}

// Warnings says which lines of the files are not in force.
func (c Change) Warnings() (list []string) {
	if c.Unread != nil {
		list = append(list, fmt.Sprintf("variables of a file are not used: %v", c.Unread))
	}
	for _, v := range c.Hidden {
		list = append(list, fmt.Sprintf("%s is not used from %s: the environment of the process has another value, which comes first", v.Name, v.Place()))
	}
	for _, v := range c.Stuck {
		list = append(list, fmt.Sprintf("%s is gone from %s, and needs a restart: the process was started with it", v.Name, v.File))
	}
	return list
}

// Apply puts the variables of files into force, in place of those that it put there before. The
// first file that has a variable counts. If it fails it has changed nothing. undo takes it back.
func (l *Layer) Apply(files []string) (c Change, undo func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	given := map[string]Variable{}
	for _, path := range files {
		list, err := Read(path)
		if err != nil {
			return Change{}, nil, err
		}
		of := map[string]Variable{}
		for _, v := range list {
			of[v.Name] = v
		}
		for name, v := range of {
			if _, known := given[name]; !known && (v.Value != "" || !strings.HasPrefix(name, own)) {
				given[name] = v
			}
		}
	}
	before := l.said
	next, values := map[string]owned{}, map[string]*string{}
	for name, v := range given {
		now, set := l.Lookup(name)
		old, mine := before[name]
		if now == "" && strings.HasPrefix(name, own) {
			set = false
		}
		switch {
		case set && !mine && now != v.Value:
			c.Hidden = append(c.Hidden, v)
			continue
		case !set || now != v.Value:
			values[name] = &v.Value
		}
		next[name] = owned{v, old.adopted || set && !mine}
	}
	for name, old := range before {
		if _, still := given[name]; still {
			continue
		}
		if old.adopted {
			c.Stuck, next[name] = append(c.Stuck, old.Variable), old
			continue
		}
		values[name] = nil
	}
	c.Changed = slices.Sorted(maps.Keys(values))
	for _, list := range [][]Variable{c.Hidden, c.Stuck} {
		slices.SortFunc(list, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	}
	back := l.put(values)
	l.said = next
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.put(back)
		l.said = before
	}, nil
}

// put sets variables, unsets those without a value, and returns what was there before.
func (l *Layer) put(values map[string]*string) (before map[string]*string) {
	before = map[string]*string{}
	for name, value := range values {
		before[name] = nil
		if now, set := l.Lookup(name); set {
			before[name] = &now
		}
		// The name is valid and no value has a zero byte that a system would refuse.
		if value == nil {
			_ = l.Unset(name)
		} else {
			_ = l.Set(name, *value)
		}
	}
	return before
}

// Place names where a variable is set, for people; it is empty if the variable is not set.
func (l *Layer) Place(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, ruled := l.said[name]; ruled {
		return v.Place()
	}
	if now, set := l.Lookup(name); set && now != "" {
		return "the environment"
	}
	return ""
}

// Added returns the names of the variables that the process has from files alone, sorted.
func (l *Layer) Added() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, v := range l.said {
		if !v.adopted {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Ruled returns the names of the variables whose values the files have, sorted, also of those that the
// process was started with.
func (l *Layer) Ruled() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.said))
}

// UnsetEmpty unsets purser's variables that are set to nothing, as compose files do.
func UnsetEmpty() {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" && strings.HasPrefix(name, own) {
			_ = os.Unsetenv(name)
		}
	}
}
