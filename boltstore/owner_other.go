//go:build !unix

package boltstore

import "os"

// own does nothing: files here have no owner that a new one would not have.
func own(string, os.FileInfo) error { return nil }
