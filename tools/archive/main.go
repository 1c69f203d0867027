// Command archive packs a folder: archive OUTPUT FOLDER
//
// OUTPUT ends with .tar.gz or .zip, and the folder's own name is the only one at the archive's top. The same files give
// the same bytes: names are sorted, everything belongs to root, and times are SOURCE_DATE_EPOCH, else 1980.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: archive OUTPUT FOLDER")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "archive: %v\n", err)
		os.Exit(1)
	}
}

// entry is a file or a folder of the archive.
type entry struct {
	name string // with slashes; a folder's ends with one
	mode fs.FileMode
	size int64
	time time.Time
}

// writer takes a header and returns where the content goes.
type writer interface {
	begin(entry) (io.Writer, error)
	Close() error
}

func pack(output, folder string) (err error) {
	at, err := moment()
	if err != nil {
		return err
	}
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var w writer
	switch {
	case strings.HasSuffix(output, ".zip"):
		w = zipped{zip.NewWriter(file)}
	case strings.HasSuffix(output, ".tar.gz"):
		z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
		if err != nil {
			return err
		}
		w = tarred{tar.NewWriter(z), z}
	default:
		return fmt.Errorf("%s is neither .tar.gz nor .zip", output)
	}
	err = filepath.WalkDir(folder, func(from string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return add(w, folder, from, d, at)
	})
	return errors.Join(err, w.Close())
}

// moment returns the time that all entries get. Zip knows none before 1980.
func moment() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func add(w writer, folder, from string, d fs.DirEntry, at time.Time) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	below, err := filepath.Rel(folder, from)
	if err != nil {
		return err
	}
	e := entry{name: path.Join(filepath.Base(folder), filepath.ToSlash(below)), mode: 0o644, size: info.Size(), time: at}
	switch {
	case d.IsDir():
		e.name, e.mode, e.size = e.name+"/", fs.ModeDir|0o755, 0
	case !d.Type().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", from)
	case info.Mode()&0o100 != 0:
		e.mode = 0o755
	}
	into, err := w.begin(e)
	if err != nil || d.IsDir() {
		return err
	}
	content, err := os.Open(from)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(into, content)
	return err
}

type tarred struct {
	*tar.Writer
	z *gzip.Writer
}

func (w tarred) begin(e entry) (io.Writer, error) {
	h := tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode.Perm()), Size: e.size, ModTime: e.time, Uname: "root", Gname: "root"}
	if e.mode.IsDir() {
		h.Typeflag = tar.TypeDir
	}
	return w, w.WriteHeader(&h)
}

func (w tarred) Close() error { return errors.Join(w.Writer.Close(), w.z.Close()) }

type zipped struct{ *zip.Writer }

func (w zipped) begin(e entry) (io.Writer, error) {
	h := zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: e.time}
	if e.mode.IsDir() {
		h.Method = zip.Store
	}
	h.SetMode(e.mode)
	return w.CreateHeader(&h)
}
