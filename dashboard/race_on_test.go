//go:build race

package dashboard_test

// slower is the factor by which the race detector slows a page down.
const slower = 10
