//go:build unix

package boltstore

import (
	"os"
	"syscall"
)

// own gives a file the owner of another, so that root can do what purser's user would.
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
