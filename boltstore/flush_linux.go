package boltstore

import (
	"errors"
	"os"
	"syscall"
)

// flushData waits until the data of a file are durable, without its times.
func flushData(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
