// Package crate packs files for another server: into a folder, or into one tar of it. A crate has its name only when all of
// it is there, was read again, and its caller lets it go. Package cli says which files a purser needs, and package move
// marks the store that stays behind.
package crate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/vault"
)

// Suffix ends the name of a crate that is a tar.
const Suffix = ".tar"

const (
	fileMode = 0o600
	dirMode  = 0o700
)

// Part is a file in a crate.
type Part struct {
	// Name is its path in the crate, with slashes.
	Name string
	// Write writes it to a path where nothing is.
	Write func(path string) error
}

// File is a part with the content of a file.
func File(name, from string) Part {
	return Part{name, func(path string) error {
		source, err := os.Open(from) //nolint:gosec // the operator's own file
		if err != nil {
			return err
		}
		defer func() { _ = source.Close() }()
		to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode) //nolint:gosec // below the crate
		if err != nil {
			return err
		}
		read := sha256.New()
		_, err = io.Copy(to, io.TeeReader(source, read))
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
		written, err := hashOf(path)
		if err == nil && !bytes.Equal(written, read.Sum(nil)) {
			err = fmt.Errorf("%s reads otherwise than it was written", path)
		}
		return err
	}}
}

// Packed is a crate without its name.
type Packed struct {
	// Sum identifies what is in it: names and contents.
	Sum   string
	Files int
	Bytes int64
}

// staged returns the path that a crate has until it is delivered. It begins with a dot, beside the name.
func staged(to string) string {
	return filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".moving")
}

// Pack packs the parts for the name to, durably, and reads all of it again. It removes what an earlier Pack for
// the name has left. Nothing may have the name yet: fs.ErrExist.
func Pack(ctx context.Context, to string, parts []Part) (p Packed, err error) {
	if err := free(to); err != nil {
		return p, err
	}
	stage, folder := staged(to), staged(to)
	if tars(to) {
		folder += ".folder"
	}
	if err := errors.Join(os.RemoveAll(stage), os.RemoveAll(folder), os.Mkdir(folder, dirMode)); err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(stage), os.RemoveAll(folder))
		}
	}()
	for _, part := range parts {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		if err := put(folder, part); err != nil {
			return p, fmt.Errorf("%s: %w", part.Name, err)
		}
	}
	if p, err = weigh(os.DirFS(folder)); err != nil || !tars(to) {
		return p, err
	}
	failpoint.Here(failpoint.MovePacking)
	if err := pack(stage, top(to), folder); err != nil {
		return p, err
	}
	again, err := weighTar(stage, top(to))
	if err == nil && again != p {
		err = fmt.Errorf("%s reads otherwise than it was written", stage)
	}
	if err != nil {
		return p, err
	}
	return p, errors.Join(os.RemoveAll(folder), vault.SyncDir(filepath.Dir(to)))
}

// Deliver gives a packed crate its name, if it is the one with this sum. A crate that has its name already is left as it is.
func Deliver(to, sum string) error {
	at := staged(to)
	_, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		at = to
		_, err = os.Lstat(at)
	}
	if err != nil {
		return err
	}
	var p Packed
	if tars(to) {
		p, err = weighTar(at, top(to))
	} else {
		p, err = weigh(os.DirFS(at))
	}
	switch {
	case err != nil:
		return err
	case p.Sum != sum:
		return fmt.Errorf("%s is not what was packed", at)
	case at == to:
		return nil
	}
	if err := errors.Join(free(to), os.Rename(at, to)); err != nil {
		return err
	}
	return vault.SyncDir(filepath.Dir(to))
}

// free refuses a name that something has.
func free(to string) error {
	_, err := os.Lstat(to)
	if err == nil {
		return fmt.Errorf("%s: %w", to, fs.ErrExist)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func tars(to string) bool { return strings.HasSuffix(to, Suffix) }

// top returns the name of the folder in a tar.
func top(to string) string { return strings.TrimSuffix(filepath.Base(to), Suffix) }

// put writes a part and waits for the disk.
func put(folder string, part Part) error {
	name, err := filepath.Localize(part.Name)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	if err := part.Write(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // below the crate
	if err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(fileMode), file.Sync(), file.Close()); err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if err := vault.SyncDir(dir); err != nil || dir == filepath.Dir(folder) {
			return err
		}
	}
}

// weigh reads a folder.
func weigh(folder fs.FS) (p Packed, err error) {
	s := newScale()
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := folder.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(s.add(name, file), file.Close())
	})
	return s.packed(), err
}

// scale adds up files in the order of their names.
type scale struct {
	sum io.Writer
	p   Packed
	of  func() []byte
}

func newScale() *scale {
	h := sha256.New()
	return &scale{sum: h, of: func() []byte { return h.Sum(nil) }}
}

func (s *scale) add(name string, content io.Reader) error {
	one := sha256.New()
	n, err := io.Copy(one, content)
	if err != nil {
		return err
	}
	s.p.Files++
	s.p.Bytes += n
	_, err = fmt.Fprintf(s.sum, "%q %x\n", name, one.Sum(nil))
	return err
}

func (s *scale) packed() Packed {
	s.p.Sum = hex.EncodeToString(s.of())
	return s.p
}

func hashOf(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // below the crate
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(h, file)
	return h.Sum(nil), errors.Join(err, file.Close())
}
