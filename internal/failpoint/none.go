//go:build !failpoints

package failpoint

// Enabled tells a test build from a program that handles money.
const Enabled = false

// Here is a place where a test may end the process.
func Here(string) {}

// Off reports whether a test has switched a protection off. It never has here.
func Off(string) bool { return false }
