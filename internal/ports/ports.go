// Package ports tells occupied ports from free ones, and finds free ports for the servers of tests.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
)

// handedOut is the lowest port that a system picks by itself: for port 0 and for outgoing
// connections. This is the value of Linux; other systems use higher ones.
const handedOut = 32_768

const lowest = 10_000

// attempts bounds the search for one port or block.
const attempts = 1000

var errNone = errors.New("there are no free ports")

// Free gives out unused ports of 127.0.0.1, each once. They lie below the ports that systems pick
// by themselves. No other program therefore gets such a port before its server has started, or
// while the server is down. Free is safe for concurrent use. The zero value is ready.
type Free struct {
	mu    sync.Mutex
	given map[int]bool
}

// Take returns n ports.
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

// Block reserves n consecutive ports and returns the first.
func (f *Free) Block(n int) (first int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.block(n)
}

// block reserves n consecutive ports. Its caller must hold mu.
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
