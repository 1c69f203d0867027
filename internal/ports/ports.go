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
	if f.given == nil {
		f.given = make(map[int]bool)
	}
	var found []int
	for tries := 0; len(found) < n; tries++ {
		if tries == 1000 {
			return nil, errors.New("there are no free ports")
		}
		port := lowest + rand.IntN(handedOut-lowest) //nolint:gosec // no secret
		if f.given[port] {
			continue
		}
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			continue
		}
		_ = l.Close()
		f.given[port] = true
		found = append(found, port)
	}
	return found, nil
}
