//go:build race

package dashboard_test

// slower is by how much the race detector makes a page dearer.
const slower = 10
