//go:build !unix

package agentenv

import "io/fs"

// ownedByUser returns true: on other systems, the folder for temporary files is the user's own.
func ownedByUser(fs.FileInfo) bool { return true }
