package crate

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// pack writes a folder as a tar, below the name top, and waits for the disk.
func pack(to, top, folder string) (err error) {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode) //nolint:gosec // the operator names it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(folder, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, at)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: path.Join(top, filepath.ToSlash(name)), Mode: fileMode, Size: info.Size(), ModTime: info.ModTime(), Typeflag: tar.TypeReg}
		if entry.IsDir() {
			h.Name, h.Mode, h.Size, h.Typeflag = h.Name+"/", dirMode, 0, tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil || entry.IsDir() {
			return err
		}
		from, err := os.Open(at) //nolint:gosec // below the crate
		if err != nil {
			return err
		}
		_, err = io.Copy(w, from)
		return errors.Join(err, from.Close())
	})
	return errors.Join(err, w.Close(), file.Sync())
}

// weighTar reads a tar as weigh reads its folder.
func weighTar(at, top string) (p Packed, err error) {
	file, err := os.Open(at) //nolint:gosec // the operator names it
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s, r := newScale(), tar.NewReader(file)
	for {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return s.packed(), nil
		case err != nil:
			return p, err
		case h.Typeflag == tar.TypeDir:
			continue
		}
		name, below := strings.CutPrefix(h.Name, top+"/")
		if h.Typeflag != tar.TypeReg || !below {
			return p, fmt.Errorf("%s has %s, which was not packed", at, h.Name)
		}
		if err := s.add(name, r); err != nil {
			return p, err
		}
	}
}
