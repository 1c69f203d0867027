//go:build unix

package cli

import (
	"fmt"
	"syscall"
)

// Become replaces this process by a program, so that signals and the exit status are the
// program's. It returns only when that fails.
func Become(path string, args, environ []string) (int, error) {
	//nolint:gosec // running what the user asks for is the purpose
	return 0, fmt.Errorf("cannot be run: %w", syscall.Exec(path, args, environ))
}
