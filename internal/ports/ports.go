// Package ports finds ports for the servers of tests.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
)

// Systems hand out ports of their own accord, for port 0 and for outgoing connections, from here
// on (Linux) or higher.
const handedOut = 32_768

const lowest = 10_000

// attempts bounds the search for one port or block.
const attempts = 1000

var errNone = errors.New("there are no free ports")

// Free gives out ports of 127.0.0.1 that nobody listens on, none of them twice. They are below
// those that systems hand out, so that nobody comes by one before its server has started, or
// while it is down. It is safe for concurrent use; the zero value is ready.
type Free struct {
	mu    sync.Mutex
	given map[int]bool
}

// Take gives n ports.
func (f *Free) Take(n int) ([]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []int
	for range n {
		port, err := f.block(1)
		if err != nil {
			return nil, err
		}
		found = append(found, port)
	}
	return found, nil
}

// Block gives n ports that follow each other, of which it returns the first.
func (f *Free) Block(n int) (first int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.block(n)
}

// block is called with mu held.
func (f *Free) block(n int) (first int, err error) {
	if f.given == nil {
		f.given = make(map[int]bool)
	}
	for range attempts {
		first = lowest + rand.IntN(handedOut-lowest-n+1) //nolint:gosec // no secret
		if !f.unused(first, n) {
			continue
		}
		for port := first; port < first+n; port++ {
			f.given[port] = true
		}
		return first, nil
	}
	return 0, errNone
}

func (f *Free) unused(first, n int) bool {
	for port := first; port < first+n; port++ {
		if f.given[port] {
			return false
		}
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
