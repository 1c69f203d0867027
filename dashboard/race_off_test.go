//go:build !race

package dashboard_test

const slower = 1
