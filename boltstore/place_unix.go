//go:build unix && !linux

package boltstore

import (
	"os"
	"syscall"
)

func placeOf(path string) (p Place, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return p, err
	}
	if s, is := info.Sys().(*syscall.Stat_t); is {
		p.Inode = uint64(s.Ino) //nolint:unconvert // 32 bits on some systems
	}
	return p, nil
}
