//go:build !linux

package boltstore

import "os"

// flushData waits until the data of a file are durable.
func flushData(file *os.File) error { return file.Sync() }
