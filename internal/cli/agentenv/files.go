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
	fileMode    = 0o644 // programs of other users may read the files
	dirMode     = 0o755
	privateFile = 0o600 // of a file that has what only this user may read
	privateMode = 0o700 // of a folder inside one that every user can write to
)

// files is a folder whose files are named after a hash of their content. Programs can share them,
// and no file ever changes while a program uses it.
type files string

func openFiles(dir string) (files, error) {
	if dir != "" {
		return files(dir), os.MkdirAll(dir, dirMode)
	}
	if caches, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(caches, "purser")
		if os.MkdirAll(dir, dirMode) == nil && writable(dir) {
			return files(dir), nil
		}
	}
	dir = filepath.Join(os.TempDir(), "purser-"+strconv.Itoa(os.Getuid()))
	return files(dir), makePrivate(dir)
}

func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".purser-*")
	if err != nil {
		return false
	}
	_ = f.Close()
	return os.Remove(f.Name()) == nil
}

// makePrivate makes a folder that only this user can change. Every user can make folders among the
// temporary files. An existing folder may therefore belong to another user, who could then choose
// the roots that our programs trust.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, privateMode); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ownedByUser(info):
		return fmt.Errorf("%s is not a folder of this user alone: remove it, or set HOME", dir)
	}
	return nil
}

func (f files) write(name, ending string, content []byte) (string, error) {
	return f.writeAs(name, ending, content, fileMode)
}

func (f files) writeAs(name, ending string, content []byte, mode fs.FileMode) (string, error) {
	path := f.path(name, ending, content)
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
		return path, nil
	}
	return path, atomicfile.Write(path, content, mode)
}

func (f files) path(name, ending string, content []byte) string {
	hash := sha256.Sum256(content)
	return filepath.Join(string(f), fmt.Sprintf("%s-%x%s", name, hash[:8], ending))
}
