//go:build unix && !solaris && !aix

package pgstore

import (
	"os"
	"syscall"
)

// lockFile locks a file until it is closed, or fails at once.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // descriptors are small
}
