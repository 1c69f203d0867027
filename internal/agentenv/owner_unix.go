//go:build unix

package agentenv

import (
	"io/fs"
	"os"
	"syscall"
)

// owned reports whether a file is the user's.
func owned(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
