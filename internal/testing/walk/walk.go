// Package walk counts how much of purser one request enters: the files, and the calls of functions that are declared in
// them. tools/walk puts a call of Enter into every function for one run of tests; nothing else imports this package.
package walk

import (
	"maps"
	"slices"
	"sync"
)

var (
	mu    sync.Mutex
	calls map[string]int // by file; nil while nothing is counted
)

// Enter notes a call of a function in a file.
func Enter(file string) {
	mu.Lock()
	defer mu.Unlock()
	if calls != nil {
		calls[file]++
	}
}

// Count counts the calls during f, by file.
func Count(f func()) map[string]int {
	mu.Lock()
	calls = map[string]int{}
	mu.Unlock()
	f()
	mu.Lock()
	defer mu.Unlock()
	counted := calls
	calls = nil
	return counted
}

// Sum returns the number of files, and of calls, and the files in order, those with most calls first.
func Sum(calls map[string]int) (n int, files []string) {
	for _, c := range calls {
		n += c
	}
	files = slices.SortedFunc(maps.Keys(calls), func(a, b string) int { return calls[b] - calls[a] })
	return n, files
}
