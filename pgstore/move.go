package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
		err = m.Refusal("postgres")
	}
	return err
}

// Moving is a database that no node uses, to be moved.
type Moving struct {
	pool *pgxpool.Pool
	name string
}

var _ move.Store = (*Moving)(nil)

// errForeign: the database is not an empty one.
var errForeign = errors.New("the database holds something else")

// OpenSource opens a database to be moved elsewhere. All nodes must be stopped. It changes nothing. ErrNewer, ErrWorld,
// vault.ErrWrongMasterKey, or an error of the database.
func OpenSource(ctx context.Context, o Options) (*Moving, error) {
	return openMoving(ctx, o, func(s *Moving, config *pgx.ConnConfig) error {
		if err := s.isStore(ctx); err != nil {
			return err
		}
		if err := s.sameSchema(ctx, config); err != nil {
			return err
		}
		if err := s.nothingKept(ctx, o.Dir); err != nil {
			return err
		}
		return s.unlock(ctx, o)
	})
}

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

// nothingKept refuses a database whose node has kept outcomes in its folder that are not written yet.
func (s *Moving) nothingKept(ctx context.Context, dir string) error {
	id, err := setting(ctx, s.pool, settingID)
	if err != nil || dir == "" {
		return err
	}
	path := outagePath(dir, string(id))
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		return fmt.Errorf("outcomes wait in %s: start and stop purser, and move then", path)
	}
	return nil
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

// Kind is "postgres".
func (s *Moving) Kind() string { return "postgres" }

// Mark reads the mark; nil: there is none.
func (s *Moving) Mark(ctx context.Context) (*move.Mark, error) {
	return settingOf[move.Mark](ctx, s.pool, settingMove)
}

// fence makes the database refuse payments of nodes that were not connected when the move began.
const fence = `CREATE OR REPLACE FUNCTION purser_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION 'this store was moved: stop this purser, see purser migrate --help'; END $$;
	DROP TRIGGER IF EXISTS purser_moved ON payments;
	CREATE TRIGGER purser_moved BEFORE INSERT OR UPDATE OR DELETE ON payments FOR EACH STATEMENT EXECUTE FUNCTION purser_moved()`

// SetMark writes or removes the mark.
func (s *Moving) SetMark(ctx context.Context, m *move.Mark) error {
	return s.within(ctx, func(tx pgx.Tx) error {
		sql := ""
		switch {
		case m == nil:
			sql = `DROP TRIGGER IF EXISTS purser_moved ON payments; DROP FUNCTION IF EXISTS purser_moved()`
		case m.Role == move.Source:
			sql = fence
		default:
			if _, err := tx.Exec(ctx, `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, settingID, []byte(rand.Text())); err != nil {
				return err
			}
		}
		if sql != "" {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return putMark(ctx, tx, m)
	})
}

func putMark(ctx context.Context, tx pgx.Tx, m *move.Mark) error {
	if m == nil {
		_, err := tx.Exec(ctx, `DELETE FROM settings WHERE name = $1`, settingMove)
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, settingMove, text)
	return err
}

func (s *Moving) within(ctx context.Context, run func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, run)
}

// Empty reports that there is no store: no keys of a vault.
func (s *Moving) Empty(ctx context.Context) (bool, error) {
	state, err := setting(ctx, s.pool, settingVault)
	return state == nil, err
}

// db is the store without a committer.
func (s *Moving) db() *DB {
	return &DB{pool: s.pool, clock: time.Now, log: slog.New(slog.DiscardHandler)}
}

// Check checks the books.
func (s *Moving) Check(ctx context.Context) error { return s.db().Check(ctx) }

// Reconcile makes nodes read from the chain what was paid since a time, before they pay. It is what an
// operator who has restored a backup of the database calls.
func (s *Moving) Reconcile(ctx context.Context, taken time.Time) error {
	return s.db().Restore(ctx, taken)
}
