// Package clitest runs purser's commands in the process of a test.
package clitest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/x402"
)

// Line holds the folder, environment and input of a command. The zero value is an empty folder, with
// PATH and HOME in the environment.
type Line struct {
	Dir     string
	Environ []string
	Stdin   io.Reader
	Stdout  io.Writer     // gets the output as it comes; may be nil
	AskTime time.Duration // 0: as for operators
	MakeKey func(context.Context) (cli.FirstKey, error)
	// PublicRPC returns the RPC that init proposes; nil: none.
	PublicRPC func(x402.Network) string
}

// Outcome holds the output of a command, and its exit status.
type Outcome struct {
	Stdout, Stderr string
	Status         int
}

// Run runs a command in a folder of its own.
func Run(t *testing.T, environ []string, args ...string) Outcome {
	t.Helper()
	return Line{Environ: environ}.Run(t, args...)
}

// Run runs a command.
func (l Line) Run(t *testing.T, args ...string) Outcome {
	t.Helper()
	if l.Dir == "" {
		l.Dir = t.TempDir()
	}
	environ := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.Dir}, l.Environ...)
	var stdout, stderr bytes.Buffer
	layer := layerOver(&environ)
	env := &cli.Env{
		Dir: l.Dir, Now: time.Now, AskTime: l.AskTime, MakeKey: l.MakeKey, PublicRPC: l.PublicRPC, Environ: func() []string { return environ },
		Layer: layer, Getenv: func(name string) string {
			value, _ := layer.Lookup(name)
			return value
		},
		Become: func(path string, args, environ []string) (int, error) {
			c := exec.CommandContext(t.Context(), path, args[1:]...) //nolint:gosec // the test names the program
			c.Dir, c.Env, c.Stdout, c.Stderr = l.Dir, environ, &stdout, &stderr
			err := c.Run()
			if exit, is := errors.AsType[*exec.ExitError](err); is {
				return exit.ExitCode(), nil
			}
			return 0, err
		},
	}
	root := &cobra.Command{Use: "purser", SilenceErrors: true, SilenceUsage: true}
	for _, command := range env.Commands() {
		c := &cobra.Command{Use: command.Name + " " + command.Usage, Short: command.Short, Long: command.Long}
		command.Setup(c)
		root.AddCommand(c)
	}
	root.SetArgs(args)
	root.SetIn(l.Stdin)
	if l.Stdin == nil {
		root.SetIn(strings.NewReader(""))
	}
	root.SetOut(&stdout)
	if l.Stdout != nil {
		root.SetOut(io.MultiWriter(&stdout, l.Stdout))
	}
	root.SetErr(&stderr)
	status := 0
	if err := root.ExecuteContext(t.Context()); err != nil {
		exit, is := errors.AsType[*cli.Exit](err)
		if !is {
			t.Fatalf("%q: %v", args, err)
		}
		status = exit.Status
	}
	return Outcome{Stdout: stdout.String(), Stderr: stderr.String(), Status: status}
}

// layerOver returns a layer over a list of variables.
func layerOver(environ *[]string) *environment.Layer {
	unset := func(name string) {
		*environ = slices.DeleteFunc(slices.Clone(*environ), func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	}
	return &environment.Layer{
		Unset: func(name string) error { unset(name); return nil },
		Set: func(name, value string) error {
			unset(name)
			*environ = append(*environ, name+"="+value)
			return nil
		},
		Lookup: func(name string) (value string, set bool) {
			for _, entry := range *environ { // the last one counts
				if n, v, _ := strings.Cut(entry, "="); n == name {
					value, set = v, true
				}
			}
			return value, set
		},
	}
}

// InitMade lists the names that `purser init` makes in a folder.
const InitMade = "Caddyfile purser-data purser.env"

// Written lists the names in a folder.
func Written(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// ReadText returns the text of a file.
func ReadText(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
