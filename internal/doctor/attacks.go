package doctor

import (
	"context"
	"fmt"
	"slices"
)

// outcome is what became of an attack.
type outcome struct {
	result Result
	says   string
	story  []string
}

func held(format string, args ...any) outcome {
	return outcome{Held, fmt.Sprintf(format, args...), nil}
}

func off(format string, args ...any) outcome {
	return outcome{Off, "off by your configuration: " + fmt.Sprintf(format, args...), nil}
}

func failed(story []string, format string, args ...any) outcome {
	return outcome{Failed, fmt.Sprintf(format, args...), story}
}

// attack is one line.
type attack struct {
	group, name string
	// tries is what is tried, in words.
	tries string
	// plays are the scenarios that it consists of, if it does, and holds is how they all must end, in words.
	plays []play
	holds string
	// run is the attack, if it does not. An error means that it could not be made.
	run func(context.Context, *examination) (outcome, error)
	// last: it looks at what all others have left.
	last bool
}

// The groups, in their order.
const (
	neverTwice   = "never twice"
	neverNothing = "never for nothing"
	withinLimits = "within limits"
	doors        = "doors"
	overload     = "overload"
	books        = "books"
)

// attacks are all there are, in the order of their groups. more adds every scenario that there is.
func attacks(more bool) []attack {
	all := slices.Concat(onceAttacks(), lieAttacks(), limitAttacks(), doorAttacks(), overloadAttacks(), bookAttacks())
	if more {
		all = slices.Concat(all, otherScenarios(all))
	}
	order := []string{neverTwice, neverNothing, withinLimits, doors, overload, books}
	slices.SortStableFunc(all, func(a, b attack) int {
		return slices.Index(order, a.group) - slices.Index(order, b.group)
	})
	return all
}

// Attack is an attack by name.
type Attack struct{ Group, Name, Tries string }

// Attacks lists those of a run.
func Attacks(more bool) []Attack {
	var list []Attack
	for _, a := range attacks(more) {
		list = append(list, Attack{a.group, a.name, a.tries})
	}
	return list
}

// chosen are the attacks by their names and those of their groups; no names are all.
func chosen(all []attack, names []string) ([]attack, error) {
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(a attack) bool { return a.name == name || a.group == name }) {
			return nil, fmt.Errorf("there is no attack %q: --list shows them", name)
		}
	}
	return slices.DeleteFunc(all, func(a attack) bool {
		return !slices.Contains(names, a.name) && !slices.Contains(names, a.group)
	}), nil
}
