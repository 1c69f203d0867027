//go:build !unix

package boltstore

import "os"

// own does nothing: files here have no owner that a new one would not have.
func copyOwner(string, os.FileInfo) error { return nil }
