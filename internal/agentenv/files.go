package agentenv

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/purserpay/purser/internal/atomicfile"
)

const (
	// Programs of other users may have to read the files.
	fileMode = 0o644
	dirMode  = 0o755
	// privateMode is for a folder among everybody's.
	privateMode = 0o700
)

// files is a folder of files that are named for what is in them, so that programs share
// them and no file ever changes under one.
type files struct{ dir string }

// openFiles makes the folder.
func openFiles(dir string) (files, error) {
	if dir != "" {
		return files{dir: dir}, os.MkdirAll(dir, dirMode)
	}
	if caches, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(caches, "purser")
		if os.MkdirAll(dir, dirMode) == nil && writable(dir) {
			return files{dir: dir}, nil
		}
	}
	dir = filepath.Join(os.TempDir(), "purser-"+strconv.Itoa(os.Getuid()))
	return files{dir: dir}, makePrivate(dir)
}

// writable reports whether a file can be made in a folder.
func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".purser-*")
	if err != nil {
		return false
	}
	_ = f.Close()
	return os.Remove(f.Name()) == nil
}

// makePrivate makes a folder that nobody else can change. Where everybody may make
// folders, one that was there before may be somebody else's, who would choose what our
// programs trust.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, privateMode); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !owned(info):
		return fmt.Errorf("%s is not a folder of this user alone: remove it, or set HOME", dir)
	}
	return nil
}

// keep puts content into a file and returns its path.
func (f files) keep(name, ending string, content []byte) (string, error) {
	path := f.path(name, ending, content)
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
		return path, nil
	}
	return path, atomicfile.Write(path, content, fileMode)
}

// path is where a file goes that is made of content.
func (f files) path(name, ending string, content []byte) string {
	hash := sha256.Sum256(content)
	return filepath.Join(f.dir, fmt.Sprintf("%s-%x%s", name, hash[:8], ending))
}
