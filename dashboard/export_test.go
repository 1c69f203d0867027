package dashboard

import (
	"maps"
	"slices"
)

// Patterns lists the routes that need a visitor.
func Patterns() []string {
	return slices.Collect(maps.Keys((&dashboard{}).views()))
}
