package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/environment"
)

const envfileUsage = "file of variables, may be given several times (default: " + environment.FileName + " beside the configuration, else of this folder)"

// envfileFlag adds the flag that names files of variables, unless the command has it.
func envfileFlag(c *cobra.Command) {
	if f := c.Flags().Lookup("envfile"); f != nil {
		f.Usage = envfileUsage
		return
	}
	c.Flags().StringSlice("envfile", nil, envfileUsage)
}

// reads makes a command of purser's, and those below it, read the files of variables first. A file
// beside the configuration that only another user can read is left out: agents run commands, too.
func (env *Env) reads(c *cobra.Command, status int) {
	for _, sub := range c.Commands() {
		env.reads(sub, status)
	}
	envfileFlag(c)
	if work := c.RunE; work != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			err := env.useFiles(c)
			if errors.Is(err, fs.ErrPermission) && !c.Flags().Changed("envfile") {
				say(c, "%v: its variables are not used", err)
				err = nil
			}
			if err != nil {
				return end(c, status, err)
			}
			return work(c, args)
		}
	}
}

// statusOf returns the exit status of a command that cannot begin.
func statusOf(name string) int {
	switch name {
	case "exec":
		return execFailed
	case "doctor":
		return doctorUnmade
	}
	return 1
}

// flag returns the value of a flag that a command may not have.
func flag(c *cobra.Command, name string) string {
	if f := c.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// files returns the files of variables that a command is to read: those that it is given, else the
// one beside a configuration.
func (env *Env) files(c *cobra.Command) ([]string, error) {
	named, err := c.Flags().GetStringSlice("envfile")
	if err != nil {
		return nil, err
	}
	for i, path := range named {
		named[i] = env.path(path)
	}
	if env.named = named; len(named) > 0 {
		return named, nil
	}
	if env.Guest != nil {
		return nil, nil // Caddy reads no file that it is not told
	}
	config := flag(c, "config")
	if config == "" || config == "-" {
		config = initCaddyfile
	}
	return environment.Beside(env.path(config))
}

// useFiles puts the variables of a command's files into force.
func (env *Env) useFiles(c *cobra.Command) error {
	files, err := env.files(c)
	if err != nil {
		return err
	}
	env.change, _, err = env.Layer.Apply(files)
	return err
}

// inherited returns the environment of programs that a command starts for its user. The variables of
// files are purser's alone.
func (env *Env) inherited() []string {
	added := env.Layer.Added()
	return slices.DeleteFunc(slices.Clone(env.Environ()), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(added, name)
	})
}

// Variables returns the names of the variables that the configuration of this process refers to, sorted.
func (env *Env) Variables() []string {
	file, _ := env.Server.Source()
	return environment.References(file)
}

// secret returns the value of a variable, or the secret that it refers to.
func (env *Env) secret(name string) (string, error) {
	value, err := environment.Secret(env.Getenv, env.Getenv(name))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// unknown warns of variables that do nothing. config is the path of the configuration, which may
// have names of its own.
func (env *Env) unknown(config string) []string {
	text, err := os.ReadFile(env.path(config))
	if err != nil {
		text = nil // loading it tells why
	}
	return env.Layer.Unknown(env.Environ(), string(text))
}

// warn tells people what keeps variables from being in force.
func warn(c *cobra.Command, warnings []string) {
	for _, w := range warnings {
		say(c, "warning: %s", w)
	}
}

// errNothing says what to do in a folder where nothing is configured.
func (env *Env) errNothing() error {
	if _, err := os.Stat(env.path(environment.FileName)); err == nil {
		return fmt.Errorf("there is no %s in this folder, only %s: --config names a configuration, and 'purser init --force' writes both anew",
			initCaddyfile, environment.FileName)
	}
	return errors.New("nothing is configured in this folder: 'purser init' sets purser up here, and --config names a configuration elsewhere")
}
