package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/exposure"
)

// Caddy has what commands use of Caddy, which this package does not know.
type Caddy struct {
	// LoadConfig returns the configuration that a server would run, as JSON, with its file and adapter.
	LoadConfig func(file, adapter string) (config []byte, usedFile, usedAdapter string, err error)
	// Validate makes all of a configuration, and starts none of it.
	Validate func(config []byte) error
	// Load replaces the configuration of this process.
	Load func(config []byte) error
	// Hush drops the log until a configuration is loaded. Warn writes to it in any case.
	Hush func()
	Warn func(text string)
	// DefaultAdmin is the address of Caddy's admin endpoint where a configuration names none.
	DefaultAdmin string
	// Version returns the versions of purser and of Caddy.
	Version func() (purser, caddy string)
}

// Server holds what this process serves: the files of its configuration and of its variables.
type Server struct {
	turn sync.Mutex // held while files are read again

	mu       sync.Mutex
	file     string // absolute path of the configuration; empty if it came from no file
	adapter  string
	envFiles []string // absolute; nil: the one beside the configuration
}

func (s *Server) serves(file, adapter string, envFiles []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file, s.adapter, s.envFiles = file, adapter, envFiles
}

func (s *Server) files() (file, adapter string, envFiles []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file, s.adapter, s.envFiles
}

// Source returns the configuration's file and adapter; the file is empty if it came from no file.
func (s *Server) Source() (file, adapter string) {
	file, adapter, _ = s.files()
	return file, adapter
}

const (
	// stopTime bounds the time in which the admin endpoint closes, once all else has ended.
	stopTime = 30 * time.Second
	stopPoll = 50 * time.Millisecond
	// reloadTime bounds the answer to a reload.
	reloadTime = time.Minute
	dialTime   = 2 * time.Second
)

// Wrap makes one of Caddy's commands, in the program purser, read purser's files of variables, and find
// the purser that purser's own commands find.
func (env *Env) Wrap(c *cobra.Command) {
	for _, sub := range c.Commands() {
		env.Wrap(sub)
	}
	work := c.RunE
	if work == nil || c.DisableFlagParsing {
		return
	}
	switch c.Name() {
	case "start": // its child is a run, which reads them
		env.own(c, "Starts the server in the background", startHelp)
		envfileFlag(c)
		c.SilenceErrors = true // they are told here
		c.RunE = func(c *cobra.Command, args []string) error { return env.startServer(c, args, work) }
	case "run":
		env.own(c, "Starts the server in this terminal", runHelp)
		env.wrap(c, func(c *cobra.Command, args []string) error { return env.runServer(c, args, work) })
	case "validate":
		env.own(c, "Checks a configuration and its variables", validateHelp)
		env.wrap(c, func(c *cobra.Command, _ []string) error { return env.validateConfig(c) })
	case "reload":
		env.own(c, "Makes the running purser read its files again", reloadHelp)
		adminAlias(c)
		env.wrap(c, func(c *cobra.Command, _ []string) error { return env.reloadServer(c) })
	case "stop":
		env.own(c, "Ends the running purser", stopHelp)
		adminAlias(c)
		env.wrap(c, func(c *cobra.Command, _ []string) error { return env.stopServer(c) })
	case "version":
		c.Short, c.Long = "Prints the versions of purser and of the Caddy in it", "Prints the versions of purser and of the Caddy in it."
		asJSON := newJSONFlag(c, printsJSON)
		c.RunE = func(c *cobra.Command, _ []string) error {
			var v versions
			v.Purser, v.Caddy = env.Caddy.Version()
			return show(c.OutOrStdout(), *asJSON, v, func(t *table, v versions) {
				_, _ = fmt.Fprintf(t, "purser %s (Caddy %s)\n", v.Purser, v.Caddy) // Flush returns the error
			})
		}
	default:
		env.wrap(c, func(c *cobra.Command, args []string) error {
			// Commands such as trust ask a running server.
			if f := c.Flags().Lookup("address"); f != nil && !f.Changed {
				_ = f.Value.Set(env.serverAddress(c, nil))
			}
			return work(c, args)
		})
	}
}

// versions holds the output of 'purser version --json'.
type versions struct {
	Purser string `json:"purser"`
	Caddy  string `json:"caddy"`
}

// own puts words about purser in the place of those about Caddy.
func (env *Env) own(c *cobra.Command, short, long string) {
	c.Use, c.Short, c.Long = c.Name()+" [flags]", short, long
}

const runHelp = `
Starts purser and runs until it is ended, by Ctrl-C, a signal or 'purser stop'. The
configuration is that of --config, else the Caddyfile in this folder; 'purser init' makes one.
The variables are those of purser.env beside it, or of --envfile. What the environment of the
process has comes first.

Where a purser runs already with the same admin endpoint, it is left alone, and the exit
status is 1.

    $ purser run
    $ purser run --config /etc/purser/Caddyfile

--watch reads the configuration again whenever it changes, but not the variables: it is for
trying things out. --environ prints all variables first, also those with secrets.`

const validateHelp = `
Makes all of a configuration without starting it, with the variables of purser.env beside it
or of --envfile, and says what is wrong. It may be used beside the purser that runs.

    $ purser validate
    $ purser validate --config /etc/purser/Caddyfile`

// wrap makes a command of Caddy's read the files of variables first, and tell its errors as purser's
// commands do.
func (env *Env) wrap(c *cobra.Command, f func(*cobra.Command, []string) error) {
	envfileFlag(c)
	c.SilenceErrors = true // they are told here
	name := c.Name()
	c.RunE = func(c *cobra.Command, args []string) error {
		err := env.useFiles(c)
		if errors.Is(err, fs.ErrPermission) && len(env.named) == 0 {
			env.change.Unread, err = err, nil // a service manager may have read it
		}
		if err != nil {
			return end(c, 1, fmt.Errorf("%s: %w", name, err))
		}
		// Caddy would read the files once more, by rules of its own.
		if files, is := c.Flags().Lookup("envfile").Value.(interface{ Replace([]string) error }); is {
			if err := files.Replace(nil); err != nil {
				return end(c, 1, err)
			}
		}
		return f(c, args)
	}
}

// adminAlias gives a command with Caddy's flag --address the one that purser's commands have.
func adminAlias(c *cobra.Command) {
	address := c.Flags().Lookup("address")
	c.Flags().Var(address.Value, "admin", "address of purser's admin endpoint "+adminDefault)
	address.Hidden = true
}

// configFile returns the configuration that a command is for, empty if there is none.
func (env *Env) configFile(c *cobra.Command) string {
	file := flag(c, "config")
	if file == "" {
		if _, err := os.Stat(env.path(initCaddyfile)); err == nil {
			return initCaddyfile
		}
	}
	return file
}

func absolute(paths []string) (list []string, err error) {
	for _, path := range paths {
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		list = append(list, path)
	}
	return list, nil
}

// runServer checks what a server is to run, and that none runs already.
func (env *Env) runServer(c *cobra.Command, args []string, work func(*cobra.Command, []string) error) error {
	file, adapter := env.configFile(c), flag(c, "adapter")
	resumed := flag(c, "resume") == "true"
	refused := func(err error) error {
		return end(c, 1, fmt.Errorf("run: %w", err))
	}
	if file == "" && !resumed {
		return refused(env.errNothing())
	}
	for _, w := range append(env.change.Warnings(), env.unknown(file)...) {
		env.Caddy.Warn(w)
	}
	if file == "" || file == "-" || resumed {
		return work(c, args)
	}
	env.Caddy.Hush() // Caddy reads it again, and says it again
	config, _, _, err := env.Caddy.LoadConfig(file, adapter)
	if err != nil {
		return refused(mistake(err, file, env.Layer))
	}
	if err := env.runsAlready(c, cmp.Or(adminIn(config), env.Caddy.DefaultAdmin)); err != nil {
		return refused(err)
	}
	open := exposure.Find(config, env.Getenv)
	if err := exposure.Errors(open); err != nil {
		return refused(mistake(err, file, env.Layer))
	}
	for _, w := range exposure.Warnings(open) {
		env.Caddy.Warn(w)
	}
	paths, err := absolute(append([]string{file}, env.named...))
	if err != nil {
		return refused(err)
	}
	env.Server.serves(paths[0], adapter, paths[1:])
	err = work(c, args)
	if err != nil {
		say(c, "run: %v", mistake(err, file, env.Layer)) // in plain words, behind Caddy's line
	}
	return err
}

func (env *Env) validateConfig(c *cobra.Command) error {
	file := env.configFile(c)
	if file == "" {
		return end(c, 1, fmt.Errorf("validate: %w", env.errNothing()))
	}
	warn(c, append(env.change.Warnings(), env.unknown(file)...))
	env.Caddy.Hush()
	config, _, _, err := env.Caddy.LoadConfig(file, flag(c, "adapter"))
	open := exposure.Find(config, env.Getenv)
	if err == nil {
		warn(c, exposure.Warnings(open))
		err = exposure.Errors(open)
	}
	if err == nil {
		err = env.Caddy.Validate(logging(config, "WARN"))
	}
	if err != nil {
		return end(c, 1, fmt.Errorf("validate: %w", mistake(err, file, env.Layer)))
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), "Valid configuration")
	return err
}

// parts are the members of a configuration that commands look at.
type parts struct {
	Admin *struct {
		Disabled bool   `json:"disabled"`
		Listen   string `json:"listen"`
	} `json:"admin"`
}

func partsOf(config []byte) (p parts) {
	_ = json.Unmarshal(config, &p) // a configuration that is none is told of elsewhere
	return p
}

// adminIn returns the address of the admin endpoint that a configuration names, or "off".
func adminIn(config []byte) string {
	p := partsOf(config)
	switch {
	case p.Admin == nil:
		return ""
	case p.Admin.Disabled:
		return off
	}
	return p.Admin.Listen
}

// logging returns a configuration that logs from a level on, to standard error.
func logging(config []byte, level string) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(config, &members) != nil || members == nil {
		return config
	}
	members["logging"] = json.RawMessage(`{"logs":{"default":{"level":"` + level + `"}}}`)
	text, err := json.Marshal(members)
	if err != nil {
		return config
	}
	return text
}

// serverAddress returns the address of the admin endpoint of the server that a command is for: the
// flag's, else PURSER_ADMIN, else what a configuration names, else the default.
func (env *Env) serverAddress(c *cobra.Command, config []byte) string {
	return cmp.Or(flag(c, "address"), env.Getenv(adminapi.AddressVariable), adminIn(config), DefaultAdmin)
}

// runsAlready returns an error if a program serves at the address of an admin endpoint. Caddy would
// take a socket away from it, and share a port with it.
func (env *Env) runsAlready(c *cobra.Command, address string) error {
	if address == off {
		return nil
	}
	client, err := env.newAdminClient(address)
	if err != nil {
		return nil //nolint:nilerr // Caddy says what is wrong with its address
	}
	switch err := client.knock(c.Context()); {
	case err == nil:
	case !strings.HasPrefix(client.address, "unix/"), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil // no program is there; a killed one may have left its socket
	default:
		return fmt.Errorf("the admin endpoint %s may be in use: %w", client.address, err)
	}
	var s adminapi.Status
	if err := client.call(c.Context(), http.MethodGet, "/purser/status", nil, &s); err != nil || s.Version == "" {
		return fmt.Errorf("another program serves at the admin endpoint %s: give this purser another one (%s)", client.address, adminapi.AddressVariable)
	}
	who := "a purser"
	if s.Process != 0 {
		who = fmt.Sprintf("a purser (pid %d)", s.Process)
	}
	return fmt.Errorf("%s runs already, with the admin endpoint %s: 'purser reload' makes it read its files again, and 'purser stop' ends it. "+
		"A second one needs a folder and ports of its own", who, client.address)
}
