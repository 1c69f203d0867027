package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/exposure"
)

const reloadHelp = `
Makes the running purser that 'purser status' shows read its configuration and its
variables again: those of purser.env beside the configuration, or of the files that it was
started with. A variable that is gone from there is unset. What the environment of the
process has comes first.

Requests in flight are finished, and no payment is lost. If something is wrong, nothing
changes and the exit status is 1. So it is where a variable has changed that needs a
restart; the error names it.

    $ purser reload
    $ purser reload --config /etc/purser/Caddyfile --envfile /etc/purser/purser.env`

func (env *Env) reloadServer(c *cobra.Command) error {
	refused := func(err error) error {
		return end(c, 1, fmt.Errorf("reload: %w", err))
	}
	if flag(c, "config") == "-" {
		return refused(errors.New("purser reads its configuration from a file: name it"))
	}
	client, err := env.serverOf(c)
	if err != nil {
		return refused(err)
	}
	body := adminapi.Reload{Adapter: flag(c, "adapter")}
	if file := flag(c, "config"); file != "" {
		if body.Config, err = filepath.Abs(env.path(file)); err != nil {
			return refused(err)
		}
	}
	if body.EnvFiles, err = absolute(env.named); err != nil {
		return refused(err)
	}
	client.client.Timeout = reloadTime
	var done adminapi.Reloaded
	err = client.call(c.Context(), http.MethodPost, "/purser/reload", body, &done)
	if place := env.Layer.Place(adminapi.AddressVariable); errors.Is(err, errNoAnswer) && flag(c, "address") == "" && place != "" {
		err = fmt.Errorf("%w; if %s, at %s, has changed since purser was started, it needs a restart", err, adminapi.AddressVariable, place)
	}
	if err != nil {
		return refused(err)
	}
	warn(c, done.Warnings)
	_, err = fmt.Fprintln(c.OutOrStdout(), reloadedText(done))
	return err
}

func reloadedText(done adminapi.Reloaded) string {
	text := "Reloaded " + label(done.Config)
	if len(done.EnvFiles) > 0 {
		text += " and " + label(strings.Join(done.EnvFiles, ", "))
	}
	if len(done.Changed) == 0 {
		return text + "; no variable has changed"
	}
	return text + "; changed: " + label(strings.Join(done.Changed, ", "))
}

// Reload reads the files of this process again, or others. If it fails nothing has changed.
func (env *Env) Reload(r adminapi.Reload) (done adminapi.Reloaded, err error) {
	s := env.Server
	s.turn.Lock()
	defer s.turn.Unlock()
	file, adapter, files := s.files()
	if r.Config != "" {
		file, adapter = r.Config, r.Adapter
	}
	if len(r.EnvFiles) > 0 {
		files = r.EnvFiles
	}
	if file == "" {
		return done, errors.New("this server was started without a configuration file: name one with --config")
	}
	used := files
	if len(used) == 0 {
		if used, err = environment.Beside(file); err != nil {
			return done, err
		}
	}
	change, undo, err := env.Layer.Apply(used)
	if errors.Is(err, fs.ErrPermission) && len(files) == 0 && len(env.Layer.Added()) == 0 { // nor was it read at the start
		change, undo, err = environment.Change{Unread: err}, func() {}, nil
	}
	if err != nil {
		return done, err
	}
	var restarts []string
	for _, name := range change.Changed {
		if why := environment.Restart(name); why != "" {
			restarts = append(restarts, fmt.Sprintf("%s needs a restart, because %s", name, why))
		}
	}
	var open []exposure.Finding
	loaded := false
	if len(restarts) > 0 {
		err = errors.New(strings.Join(restarts, "; "))
	} else if config, _, _, lerr := env.Caddy.LoadConfig(file, adapter); lerr != nil {
		err = mistake(lerr, file, env.Layer)
	} else if open = exposure.Find(config, env.Getenv); exposure.Errors(open) != nil {
		err = mistake(exposure.Errors(open), file, env.Layer)
	} else {
		loaded = true
		if lerr := env.Caddy.Load(config); lerr != nil {
			err = mistake(lerr, file, env.Layer)
		}
	}
	if err != nil {
		undo()
		if len(change.Changed) > 0 && len(restarts) == 0 {
			err = fmt.Errorf("%w (variables that have changed: %s)", err, strings.Join(change.Changed, ", "))
		}
		err = fmt.Errorf("%w; nothing was changed", err)
		if loaded {
			err = &adminapi.LoadError{Err: err}
		}
		return done, err
	}
	s.serves(file, adapter, files)
	return adminapi.Reloaded{
		Config: file, EnvFiles: append([]string{}, used...), Changed: append([]string{}, change.Changed...),
		Warnings: slices.Concat([]string{}, change.Warnings(), env.unknown(file), exposure.Warnings(open)),
	}, nil
}
