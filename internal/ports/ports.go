// Package ports tells occupied ports from free ones, and finds free ports for the servers of tests.
package ports

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
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
// while the server is down. On Linux that holds for a Free of another process too, as long as this
// one runs: two servers of Caddy share a port without a word. Free is safe for concurrent use. The
// zero value is ready.
type Free struct {
	mu    sync.Mutex
	given map[int]net.Listener // the claims, which end with the process
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
	for range attempts {
		first = lowest + rand.IntN(handedOut-lowest-n+1) //nolint:gosec // no secret
		if f.claim(first, n) {
			return first, nil
		}
	}
	return 0, errNone
}

// claim takes n consecutive ports, all or none.
func (f *Free) claim(first, n int) bool {
	claims := make(map[int]net.Listener, n)
	letGo := func() {
		for _, c := range claims {
			if c != nil {
				_ = c.Close()
			}
		}
	}
	for port := first; port < first+n; port++ {
		if _, given := f.given[port]; given {
			letGo()
			return false
		}
		c, err := claim(port)
		if err != nil {
			letGo()
			return false
		}
		claims[port] = c
	}
	if !unused(first, n) {
		letGo()
		return false
	}
	if f.given == nil {
		f.given = make(map[int]net.Listener)
	}
	maps.Copy(f.given, claims)
	return true
}

// claim keeps a port from the other processes that use this package. It needs a name that ends with the
// process, which only Linux has; elsewhere it returns nil.
func claim(port int) (net.Listener, error) {
	if runtime.GOOS != "linux" {
		return nil, nil //nolint:nilnil // there is nothing to hold
	}
	return net.Listen("unix", fmt.Sprintf("@purser-port-%d", port)) //nolint:noctx // it does not wait
}

// unused reports whether no program listens at n consecutive ports.
func unused(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
