package boltstore

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// madeUp lists file systems that may number a file anew with each mount: FUSE, 9P, FAT and exFAT.
var madeUp = []int64{unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC}

func placeOf(path string) (p Place, err error) {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &s); err != nil {
		return p, err
	}
	if s.Mask&unix.STATX_BTIME != 0 && (s.Btime.Sec != 0 || s.Btime.Nsec != 0) {
		p.Born = time.Unix(s.Btime.Sec, int64(s.Btime.Nsec)).UTC()
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return p, err
	}
	if s.Mask&unix.STATX_INO != 0 && !slices.Contains(madeUp, int64(fs.Type)) { //nolint:unconvert // 32 bits on some machines
		p.Inode = s.Ino
	}
	return p, nil
}
