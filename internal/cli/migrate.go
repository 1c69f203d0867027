package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pgstore"
)

const (
	databaseURLVariable     = "DATABASE_URL"
	databaseURLFileVariable = "DATABASE_URL_FILE"
)

const migrateHelp = `
Moves everything that a stopped purser has from the file of bbolt to PostgreSQL. The file is the one
in the data directory; the database is that of DATABASE_URL or DATABASE_URL_FILE, and must be empty.
Both have the same master key afterwards, so PURSER_MASTER_KEY, PURSER_MASTER_KEY_FILE or master.key
must be at hand.

The database takes all of it or nothing, and only if it passes what purser check checks. If the
command is cut off, run it again on the same database.

Afterwards purser refuses to start on the file, because it does not know what is paid from the
database. There is no way back. Never run purser on a copy of the file.

    $ purser migrate --from bolt --to postgres`

// mover knows the stores that a command is about.
type mover struct {
	env    *Env
	path   string
	master vault.Source
}

func (env *Env) migrateCommand(c *cobra.Command) {
	dir := env.dataDirFlag(c)
	from := c.Flags().String("from", "", "the store that is moved: bolt")
	to := c.Flags().String("to", "", "the store that it is moved into: postgres")
	dry := dryRunFlag(c)
	Run(c, func(c *cobra.Command, _ []string) error {
		if *from != "bolt" || *to != "postgres" {
			return errors.New("a store moves one way: --from bolt --to postgres")
		}
		m, err := env.mover(*dir)
		if err != nil {
			return err
		}
		if dry.on {
			dry.would = "move everything of " + m.path + " into PostgreSQL, for ever"
			if _, err := m.database(); err != nil {
				return err
			}
			return dry.tellFile(c, m.path)
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return m.move(ctx, c)
	})
}

func (env *Env) mover(dir string) (*mover, error) {
	path, err := env.databasePath(dir, nil)
	if err != nil {
		return nil, err
	}
	m := &mover{env: env, path: path, master: env.masterKeyBeside(path)}
	if m.master == nil {
		return nil, fmt.Errorf("the master key is not here: set %s or %s, or put %s beside %s", masterKeyVariable, masterKeyFileVariable, masterKeyName, path)
	}
	return m, nil
}

// databaseURL returns the address of the database that the environment names.
func (env *Env) databaseURL() (string, error) {
	if address, err := env.secret(databaseURLVariable); address != "" || err != nil {
		return address, err
	}
	file := env.Getenv(databaseURLFileVariable)
	if file == "" {
		return "", fmt.Errorf("the database is not named: set %s", databaseURLVariable)
	}
	text, err := os.ReadFile(filepath.Clean(env.path(file)))
	if err != nil {
		return "", fmt.Errorf("%s: %w", databaseURLFileVariable, err)
	}
	address := strings.TrimSpace(string(text))
	if address == "" {
		return "", fmt.Errorf("%s: %s is empty", databaseURLFileVariable, file)
	}
	return address, nil
}

func (m *mover) database() (pgstore.Options, error) {
	address, err := m.env.databaseURL()
	return pgstore.Options{URL: address, MasterKey: m.master, Dir: filepath.Dir(m.path)}, err
}

func (m *mover) move(ctx context.Context, c *cobra.Command) (err error) {
	database, err := m.database()
	if err != nil {
		return err
	}
	from, err := boltstore.OpenSource(ctx, boltstore.Options{Path: m.path, MasterKey: m.master})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := pgstore.OpenTarget(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	told := time.Now()
	counts, err := move.Run(ctx, from, to, told.UTC(), func(kind move.Kind, done int) {
		if time.Since(told) >= progressEvery {
			told = time.Now()
			say(c, "copies: %s %s", humanize.Comma(int64(done)), kind)
		}
	})
	if err != nil {
		return err
	}
	t := newTable(c.OutOrStdout())
	t.row("KIND", "RECORDS")
	for kind, n := range counts {
		t.row(move.Kind(kind).String(), humanize.Comma(int64(n))) //nolint:gosec // an index
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s has all of it, and is checked. Start purser with PURSER_STORE=postgres; it no longer starts on %s.\n", to.Name(), from.Name())
	return err
}

const restoreHelp = `
Tells a database of PostgreSQL that it was restored from a backup, by pg_restore or to a point in
time, and when that backup was taken. Stop all nodes, restore, run this, and start them: purser then
reads from the chain what was paid later, before it pays again (purser reconcile). Without this
command a repeat of something that was paid after the backup is paid twice.

--taken is the time at which pg_dump began, or the point in time that was restored to. An earlier
time costs some minutes of reading; a later one loses payments. Sessions and approvals end.

The file of bbolt needs none of this: it knows that it is a backup.

    $ purser restore --taken 2026-11-24T03:00:00Z`

func (env *Env) restoreCommand(c *cobra.Command) {
	taken := c.Flags().String("taken", "", "when the backup was taken, such as 2026-11-24T03:00:00Z (required)")
	dir := env.dataDirFlag(c)
	dry := dryRunFlag(c)
	Run(c, func(c *cobra.Command, _ []string) (err error) {
		at, err := time.Parse(time.RFC3339, *taken)
		switch {
		case err != nil:
			return errors.New("--taken is when the backup was taken, such as 2026-11-24T03:00:00Z")
		case at.After(time.Now()):
			return errors.New("--taken is in the future")
		}
		m, err := env.mover(*dir)
		if err != nil {
			return err
		}
		database, err := m.database()
		if err != nil {
			return err
		}
		if dry.on {
			dry.would = "tell the database that it was restored from a backup of " + when(at)
			return dry.tell(c, jsonForm{})
		}
		s, err := pgstore.OpenRestored(c.Context(), database)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if err := s.Reconcile(c.Context(), at); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s was restored from a backup of %s. Start purser: it reads the chain before it pays.\n", s.Name(), when(at))
		return err
	})
}
