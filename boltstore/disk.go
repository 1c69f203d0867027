package boltstore

import (
	"fmt"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
)

// diskCheck is the time between two readings of the free disk space. Tests shorten it.
var diskCheck = time.Second

// disk watches the free space of the folder of the store.
type disk struct {
	dir  string
	min  uint64
	read func(string) (uint64, error)

	mu    sync.Mutex
	at    time.Time
	state error
}

func newDisk(dir string, min uint64, read func(string) (uint64, error)) *disk {
	if min == 0 {
		min = defaultMinFree
	}
	if read == nil {
		read = freeSpace
	}
	return &disk{dir: dir, min: min, read: read}
}

// checkSpace returns pay.ErrUnavailable while there is too little space to begin anything. If the
// space cannot be read, it returns nil: a full disk fails the commit.
func (k *disk) checkSpace() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The clock of the machine, because tests set the clock of the books.
	if now := time.Now(); k.at.IsZero() || now.Sub(k.at) >= diskCheck {
		k.at, k.state = now, nil
		if free, err := k.read(k.dir); err == nil && free < k.min {
			k.state = fmt.Errorf("%w: %d MiB of disk are free and %d are kept for outcomes",
				pay.ErrUnavailable, free>>20, k.min>>20)
		}
	}
	return k.state
}

// FreeSpace returns the free bytes of the file system that a folder is in.
func FreeSpace(dir string) (uint64, error) { return freeSpace(dir) }
