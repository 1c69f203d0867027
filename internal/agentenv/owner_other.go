//go:build !unix

package agentenv

import "io/fs"

// owned: elsewhere the folder for temporary files is the user's own.
func owned(fs.FileInfo) bool { return true }
