//go:build !unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

// Become runs a program to its end, where no process can be replaced, and returns its exit
// status. Interrupts reach it from the console by themselves.
func Become(path string, args, environ []string) (int, error) {
	signal.Ignore(os.Interrupt)
	//nolint:gosec // running what the user asks for is the purpose
	c := exec.Command(path, args[1:]...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = environ, os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode(), nil
	}
	return 0, err
}
