package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/vault"
)

// maxFaults bounds the faults of a report.
const maxFaults = 50

// Report holds the findings of a check. It has the names that boltstore.Report has in JSON.
type Report struct {
	Path   string `json:"path"` // names the database, without a password
	Schema int    `json:"schema"`
	World  string `json:"world,omitempty"`
	Size   int64  `json:"size"` // of the whole database, in bytes

	// Removed is the time before which closed payments were removed; zero: none was.
	Removed time.Time `json:"removed_before,omitzero"`

	Keys     int            `json:"keys"`
	Wallets  int            `json:"wallets"`
	Payments int            `json:"payments"`
	Labels   map[string]int `json:"labels"` // payments by state and flag
	Events   int            `json:"events"`

	// Secrets reports that every secret was opened with the master key.
	Secrets bool `json:"secrets"`
	// Faults lists the differences that were found, 50 at most; More reports that there are others.
	Faults []string `json:"faults"`
	More   bool     `json:"more,omitempty"`
}

// Err returns nil for a report without faults, else an error that lists them.
func (r Report) Err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	list := slices.Clone(r.Faults)
	if r.More {
		list = append(list, "and more")
	}
	return errors.New(strings.Join(list, "\n"))
}

// Check returns the faults that Examine finds in one error.
func (d *DB) Check(ctx context.Context) error {
	r, err := d.examine(ctx, "")
	return errors.Join(r.Err(), err)
}

// Examine compares columns, counters and sums with the payments and events that make them up, and
// opens every secret, as of one moment. Payments go on meanwhile. It needs memory for the counters,
// and reads everything. It ends when the store is closed. place names the database in the report,
// which is a Report.
func (d *DB) Examine(ctx context.Context, place string) (report any, err error) {
	ctx, end := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-d.closing:
			end()
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer end()
	return d.examine(ctx, place)
}

func (d *DB) examine(ctx context.Context, place string) (Report, error) {
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return Report{}, unavailable(ctx, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has read only
	return d.examineIn(ctx, tx, place)
}

func (d *DB) examineIn(ctx context.Context, tx pgx.Tx, place string) (Report, error) {
	c := &checker{ctx: ctx, tx: tx, vault: d.vault, report: Report{
		Path: place, Secrets: d.vault != nil, Labels: map[string]int{}, Faults: []string{},
	}}
	err := errors.Join(c.meta(), c.payments(), c.events(), c.days(), c.wallets(), c.secrets())
	return c.report, err
}

// ExamineDatabase checks the books of a database as DB.Examine does, without a node. It changes
// nothing, and nodes may use the database meanwhile. Without a master key no secret is opened.
// ErrURL, ErrUnreachable, ErrRefused, ErrNewer, or an error of the database.
func ExamineDatabase(ctx context.Context, o Options) (Report, error) {
	place, err := Place(o.URL)
	if err != nil {
		return Report{}, err
	}
	s, err := openMoving(ctx, o, func(s *Moving, config *pgx.ConnConfig) error {
		if err := s.isStore(ctx); err != nil {
			return err
		}
		return s.sameSchema(ctx, config)
	})
	if err != nil {
		return Report{}, explain(err)
	}
	defer s.pool.Close()
	d := s.db()
	if d.vault, err = openVault(ctx, s.pool, o.MasterKey); err != nil {
		return Report{}, explain(err)
	}
	return d.examine(ctx, place)
}

// openVault opens the vault of a store; nil without a master key.
func openVault(ctx context.Context, pool *pgxpool.Pool, key vault.Source) (*vault.Vault, error) {
	if key == nil {
		return nil, nil
	}
	state, err := setting(ctx, pool, settingVault)
	if err != nil {
		return nil, err
	}
	master, err := key(false)
	if err != nil {
		return nil, err
	}
	return vault.Open(master, state)
}

// meta reads the facts of the store itself.
func (c *checker) meta() error {
	return each(c.ctx, c.tx, func(r pgx.Rows) error {
		return r.Scan(&c.report.Schema, &c.report.Size, &c.report.World, &c.report.Keys, &c.report.Wallets, &c.report.Events)
	}, `SELECT (SELECT max(version_id) FROM goose_db_version WHERE is_applied)::int, pg_database_size(current_database()),
		coalesce((SELECT convert_from(value, 'UTF8') FROM settings WHERE name = $1), ''),
		(SELECT count(*) FROM keys)::int, (SELECT count(*) FROM wallets)::int, (SELECT count(*) FROM spend)::int`, settingWorld)
}

// secrets opens the secret of each wallet and claimed key.
func (c *checker) secrets() error {
	if c.vault == nil {
		return nil
	}
	for _, of := range []struct {
		what, sql string
		identity  func(id string) string
	}{
		{"wallet", `SELECT id, secret FROM wallets WHERE secret IS NOT NULL ORDER BY id`, codec.WalletSecret},
		{"key", `SELECT id, secret FROM keys WHERE secret IS NOT NULL ORDER BY id`, codec.KeySecret},
	} {
		err := each(c.ctx, c.tx, func(r pgx.Rows) error {
			var id string
			var sealed []byte
			if err := r.Scan(&id, &sealed); err != nil {
				return err
			}
			if _, err := c.vault.Unseal(sealed, of.identity(id)); err != nil {
				c.fault("the secret of %s %s cannot be opened: %v", of.what, id, err)
			}
			return nil
		}, of.sql)
		if err != nil {
			return err
		}
	}
	return nil
}
