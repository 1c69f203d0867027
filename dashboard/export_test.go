package dashboard

import (
	"maps"
	"slices"
)

// Patterns lists the routes that need a visitor.
func Patterns() []string {
	return slices.Collect(maps.Keys((&dashboard{}).views()))
}

// Need returns what a route needs of its visitor.
func Need(pattern string) (act string, fresh bool) {
	n := needOf(pattern)
	return string(n.act), n.fresh
}

// RunwayText tells a runway in words.
var RunwayText = runwayText
