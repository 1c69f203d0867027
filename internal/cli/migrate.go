package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
Moves everything that a stopped purser has into another store: from the file of bbolt (bolt) to
PostgreSQL (postgres), or back. The file is the one in the data directory; the database is that of
DATABASE_URL or DATABASE_URL_FILE, and must be empty. Both have the same master key afterwards, so
PURSER_MASTER_KEY, PURSER_MASTER_KEY_FILE or master.key must be at hand.

Both stores are read again at the end. Numbers, sums and hashes of all kinds of records must agree,
and the new store must pass what purser check checks. A move that was cut off goes on when the
command is run again. Meanwhile purser starts on neither store.

Afterwards purser refuses to start on the old store: it does not know what is paid from the new one.
--unlock takes that back. The old store then reads the chain before it pays, as after a restored
backup. Never run purser on both.

    $ purser migrate --from bolt --to postgres
    $ purser migrate --from postgres --to bolt --data-dir ./purser-data
    $ purser migrate --unlock bolt`

// mover opens the stores that a command names.
type mover struct {
	env    *Env
	path   string
	master vault.Source
}

// movable is a store that a command moves.
type movable interface {
	move.Store
	io.Closer
}

func (env *Env) migrateCommand(c *cobra.Command) {
	dir := dataDirFlag(c)
	from := c.Flags().String("from", "", "the store that is moved: bolt or postgres")
	to := c.Flags().String("to", "", "the store that it is moved into: bolt or postgres")
	unlock := c.Flags().String("unlock", "", "let purser start again on the old store: bolt or postgres")
	Run(c, func(c *cobra.Command, _ []string) error {
		m, err := env.mover(*dir)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		switch {
		case *unlock != "" && (*from != "" || *to != ""):
			return errors.New("--unlock goes without --from and --to")
		case *unlock != "":
			return m.unlock(ctx, c, *unlock)
		case *from == *to || *from == "" || *to == "":
			return errors.New("--from and --to name the two stores, such as --from bolt --to postgres")
		}
		return m.move(ctx, c, *from, *to)
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
	if address := env.Getenv(databaseURLVariable); address != "" {
		return address, nil
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

// open opens a store as the source or the target of a move.
func (m *mover) open(ctx context.Context, name string, role move.Role) (movable, error) {
	file := boltstore.Options{Path: m.path, MasterKey: m.master}
	switch {
	case name == "bolt" && role == move.Source:
		return opened(boltstore.OpenSource(ctx, file))
	case name == "bolt":
		return opened(boltstore.OpenTarget(file))
	case name != "postgres":
		return nil, fmt.Errorf("%q is no store: they are bolt and postgres", name)
	}
	database, err := m.database()
	switch {
	case err != nil:
		return nil, err
	case role == move.Source:
		return opened(pgstore.OpenSource(ctx, database))
	}
	return opened(pgstore.OpenTarget(ctx, database))
}

// opened keeps a nil pointer from becoming a store.
func opened[T movable](s T, err error) (movable, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (m *mover) move(ctx context.Context, c *cobra.Command, fromName, toName string) (err error) {
	from, err := m.open(ctx, fromName, move.Source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := m.open(ctx, toName, move.Target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	told := time.Now()
	totals, err := move.Run(ctx, from, to, told.UTC(), func(doing string, kind move.Kind, done int) {
		if time.Since(told) >= progressEvery {
			told = time.Now()
			say(c, "%s: %s %s", doing, humanize.Comma(int64(done)), kind)
		}
	})
	if err != nil {
		return err
	}
	t := newTable(c.OutOrStdout())
	t.row("KIND", "RECORDS", "SHA-256", "SUM")
	for _, total := range totals {
		t.row(total.Kind.String(), humanize.Comma(int64(total.Count)), total.Hash[:16], total.Sums)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s has all of it, compared and checked. Start purser with PURSER_STORE=%s; it no longer starts on %s.\n", to.Name(), toName, from.Name())
	return err
}

func (m *mover) unlock(ctx context.Context, c *cobra.Command, name string) (err error) {
	s, err := m.open(ctx, name, move.Source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = move.Unlock(ctx, s, func(taken time.Time) error {
		switch s := s.(type) {
		case *boltstore.Moving:
			return s.Reconcile(taken)
		case *pgstore.Moving:
			return s.Reconcile(ctx, taken)
		}
		return errors.New("this store cannot be reconciled")
	})
	if err == nil {
		_, err = fmt.Fprintf(c.OutOrStdout(), "purser starts on %s again. What was paid since it was moved is read from the chain first (purser reconcile).\n", s.Name())
	}
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
	dir := dataDirFlag(c)
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
