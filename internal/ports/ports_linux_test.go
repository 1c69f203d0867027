package ports

import "testing"

// Each Free stands for a process here.
func TestPortsOfAnotherProcessAreNotGiven(t *testing.T) {
	t.Parallel()
	var f, other Free
	first, err := f.Block(8)
	if err != nil {
		t.Fatal(err)
	}
	if other.claim(first+7, 2) || other.claim(first, 1) {
		t.Error("a port has two owners")
	}
}
