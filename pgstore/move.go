package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/internal/vault"
)

const (
	// settingMove names the move.Mark. Open refuses a database that has one.
	settingMove = "move"
	// nodeName is the application_name of the connections of nodes.
	nodeName = "purser"
)

// checkMark refuses a database that is being moved, or was: move.ErrUnderWay, move.ErrMoved.
func checkMark(ctx context.Context, q querier) error {
	m, err := settingOf[move.Mark](ctx, q, settingMove)
	if err == nil {
		err = m.Refusal()
	}
	return err
}

// Moving is a database that no node uses.
type Moving struct {
	pool *pgxpool.Pool
	name string
}

var _ move.To = (*Moving)(nil)

// errForeign: the database is not an empty one.
var errForeign = errors.New("the database holds something else")

// OpenRestored opens a database that was restored from a backup, and migrates it if need be. All nodes must be
// stopped. The caller tells it with Reconcile when the backup was taken.
func OpenRestored(ctx context.Context, o Options) (*Moving, error) {
	return openMoving(ctx, o, func(s *Moving, config *pgx.ConnConfig) error {
		if err := s.isStore(ctx); err != nil {
			return err
		}
		if err := s.unlock(ctx, o); err != nil {
			return err
		}
		if err := checkMark(ctx, s.pool); err != nil {
			return err
		}
		_, err := migrate(ctx, config)
		return err
	})
}

func (s *Moving) isStore(ctx context.Context) error {
	list, err := s.tables(ctx)
	if err == nil && (!slices.Contains(list, "goose_db_version") || !slices.Contains(list, "settings")) {
		err = errors.New("the database has no store")
	}
	return err
}

// unlock checks that the master key opens the store, that it belongs to this program, and that no node is connected.
func (s *Moving) unlock(ctx context.Context, o Options) error {
	state, err := setting(ctx, s.pool, settingVault)
	if err != nil {
		return err
	}
	world, err := setting(ctx, s.pool, settingWorld)
	if err != nil {
		return err
	}
	if string(world) != o.World {
		return fmt.Errorf("%w: the database belongs to %s", ErrWorld, worldName(string(world)))
	}
	if state == nil {
		return errors.New("the database has no store")
	}
	master, err := o.MasterKey(false)
	if err != nil {
		return err
	}
	if _, err := vault.Open(master, state); err != nil {
		return err
	}
	return s.alone(ctx)
}

// OpenTarget opens a database to move a store into: an empty one, or one whose move was cut off.
func OpenTarget(ctx context.Context, o Options) (*Moving, error) {
	return openMoving(ctx, o, func(s *Moving, config *pgx.ConnConfig) error {
		list, err := s.tables(ctx)
		switch {
		case err != nil:
			return err
		case len(list) == 0, len(list) == 1 && list[0] == "goose_db_version": // a move that was cut off at once
			_, err = migrate(ctx, config)
			return err
		case !slices.Contains(list, "goose_db_version") || !slices.Contains(list, "settings") || !slices.Contains(list, "payments"):
			return fmt.Errorf("%w: tables such as %s", errForeign, strings.Join(list[:min(3, len(list))], ", "))
		}
		if err := s.sameSchema(ctx, config); err != nil {
			return err
		}
		return s.alone(ctx)
	})
}

func openMoving(ctx context.Context, o Options, prepare func(s *Moving, config *pgx.ConnConfig) error) (*Moving, error) {
	config, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	settle(config.ConnConfig)
	config.ConnConfig.RuntimeParams["application_name"] = nodeName + "-migrate"
	config.MaxConns = max(config.MaxConns, 4)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s := &Moving{pool, "database " + config.ConnConfig.Database + " on " + config.ConnConfig.Host}
	if err := prepare(s, config.ConnConfig); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open %s: %w", s.name, err)
	}
	return s, nil
}

// tables lists the tables that the connection finds first.
func (s *Moving) tables(ctx context.Context) (list []string, err error) {
	err = each(ctx, s.pool, func(r pgx.Rows) error {
		var name string
		err := r.Scan(&name)
		list = append(list, name)
		return err
	}, `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename`)
	return list, err
}

// sameSchema refuses a database of another version than this purser's.
func (s *Moving) sameSchema(ctx context.Context, config *pgx.ConnConfig) error {
	return withMigrations(config, func(p *goose.Provider) error {
		has, wants, err := p.GetVersions(ctx)
		switch {
		case err != nil:
			return err
		case has > wants:
			return fmt.Errorf("%w: %d, and this purser knows %d", ErrNewer, has, wants)
		case has < wants:
			return fmt.Errorf("the database has schema %d, and this purser %d: start purser on it once, and stop it", has, wants)
		}
		return nil
	})
}

// alone refuses a database that nodes are connected to. It waits a moment for those that just went.
func (s *Moving) alone(ctx context.Context) error {
	for try := 1; ; try++ {
		n, err := number(ctx, s.pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, nodeName)
		switch {
		case err != nil || n == 0:
			return err
		case try == 10:
			return fmt.Errorf("the database is in use: purser has %d connections to it; stop all nodes", n)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the connections.
func (s *Moving) Close() error {
	s.pool.Close()
	return nil
}

// Name tells the database and its server.
func (s *Moving) Name() string { return s.name }

// Mark reads the mark; nil: there is none.
func (s *Moving) Mark(ctx context.Context) (*move.Mark, error) {
	return settingOf[move.Mark](ctx, s.pool, settingMove)
}

// SetMark writes the mark, and makes its move the id of the store.
func (s *Moving) SetMark(ctx context.Context, m *move.Mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `INSERT INTO settings SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
		[]string{settingID, settingMove}, [][]byte{[]byte(m.Move), text})
	return err
}

// ID returns the id of the store, and whether it has keys of a vault, and so records.
func (s *Moving) ID(ctx context.Context) (id string, filled bool, err error) {
	text, err := setting(ctx, s.pool, settingID)
	if err != nil {
		return "", false, err
	}
	state, err := setting(ctx, s.pool, settingVault)
	return string(text), state != nil, err
}

// Import writes what fill hands to write, checks the books, calls sure and removes the mark, all in one transaction.
func (s *Moving) Import(ctx context.Context, fill func(write func([]move.Record) error) error, sure func() error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := fill(func(list []move.Record) error { return importKind(ctx, tx, list) }); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `ANALYZE`); err != nil { // for the check, whose plans would take hours
			return err
		}
		report, err := s.db().examineIn(ctx, tx, "")
		if err := errors.Join(report.Err(), err); err != nil {
			return fmt.Errorf("check: %w", err)
		}
		if err := sure(); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM settings WHERE name = $1`, settingMove)
		return err
	})
}

// db is the store without a committer.
func (s *Moving) db() *DB {
	return &DB{pool: s.pool, clock: time.Now, log: slog.New(slog.DiscardHandler)}
}

// Reconcile makes nodes read from the chain what was paid since a time, before they pay. It is what an
// operator who has restored a backup of the database calls.
func (s *Moving) Reconcile(ctx context.Context, taken time.Time) error {
	return s.db().Restore(ctx, taken)
}
