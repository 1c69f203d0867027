package attacks

import (
	"context"
	"fmt"
	"slices"
)

// outcome holds the result of an attack, and the story behind a failure.
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

// verdict returns the outcome of an attack that held unless there is a story.
func verdict(story []string, tries, format string, args ...any) outcome {
	if len(story) > 0 {
		return failed(story, "%s", tries)
	}
	return held("%s: %s", tries, fmt.Sprintf(format, args...))
}

// attack describes one attack, which becomes one line of the report.
type attack struct {
	group, name string
	// tries says in words what the attacker tries.
	tries string
	// plays lists the scenarios of the attack, if it consists of scenarios. holds says in words how
	// each of them must end.
	plays []play
	holds string
	// run makes an attack without scenarios. An error means that the attack could not be made.
	run func(context.Context, *examination) (outcome, error)
	// proxied marks attacks that need a proxy, and last those that inspect the traces of all others.
	proxied, last bool
}

// Groups of attacks, in the order of the report.
const (
	neverTwice   = "never twice"
	neverNothing = "never for nothing"
	withinLimits = "within limits"
	doors        = "doors"
	overload     = "overload"
	books        = "books"
)

var groups = []string{neverTwice, neverNothing, withinLimits, doors, overload, books}

// attacks returns all attacks, ordered by group. With more, it adds every remaining scenario.
func attacks(more bool) []attack {
	all := slices.Concat(
		onceAttacks(), lostClientAttacks(), lieAttacks(), limitAttacks(), doorAttacks(), overloadAttacks(), costAttacks(), bookAttacks(),
	)
	if more {
		all = slices.Concat(all, otherScenarios(all))
	}
	slices.SortStableFunc(all, func(a, b attack) int {
		return slices.Index(groups, a.group) - slices.Index(groups, b.group)
	})
	return all
}

// Attack names an attack for a list.
type Attack struct{ Group, Name, Tries string }

// List lists the attacks of a run. With more, it adds every remaining scenario.
func List(more bool) []Attack {
	var list []Attack
	for _, a := range attacks(more) {
		list = append(list, Attack{a.group, a.name, a.tries})
	}
	return list
}

// selectAttacks returns the attacks whose name or group is listed, or all when names is empty.
func selectAttacks(all []attack, names []string) ([]attack, error) {
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
