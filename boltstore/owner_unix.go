//go:build unix

package boltstore

import (
	"os"
	"syscall"
)

// copyOwner gives a file the owner of another, so that root can compact the store of another
// user.
func copyOwner(path string, like os.FileInfo) error {
	is, err := os.Stat(path)
	if err != nil {
		return err
	}
	want, ok := like.Sys().(*syscall.Stat_t)
	have, known := is.Sys().(*syscall.Stat_t)
	if !ok || !known || want.Uid == have.Uid && want.Gid == have.Gid {
		return nil
	}
	return os.Chown(path, int(want.Uid), int(want.Gid))
}
