//go:build !unix || solaris || aix

package pgstore

import "os"

// lockFile locks nothing: the operator gives each process a folder of its own.
func lockFile(*os.File) error { return nil }
