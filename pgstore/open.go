package pgstore

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Options say how to open a store.
type Options struct {
	// URL of the database, or a list of key=value pairs, as libpq takes them.
	URL string
	// MasterKey gives the key that wraps the store's secrets. It is the same on all nodes.
	MasterKey vault.Source
	// World is the required world: "" for an ordinary store, pay.SandboxWorld for one of purser-sandbox.
	World string
	// Dir is a folder of this node, for outcomes that wait for the database and for the newest batches that it has
	// answered. "": they are in memory alone, and a kill loses them.
	Dir string
	// Clock is this node's own. DB.Now tells the database's time by it. Default: time.Now.
	Clock pay.Clock
	// Logger hears of outages and lost connections. Default: discarded.
	Logger *slog.Logger
}

// Errors of opening.
var (
	// ErrNewer: a newer purser has migrated the database, and older ones must not use it any more.
	ErrNewer = errors.New("the database wants a newer purser")
	// ErrWorld: the store belongs to another world.
	ErrWorld = errors.New("store of another world")
)

// DB keeps a pay.Store in a database. It is safe for concurrent use.
type DB struct {
	storekit.Book

	pool *pgxpool.Pool
	// writers has the connections of the committer, whose statements find rows by indexes only.
	writers *pgxpool.Pool
	time    clock
	clock   pay.Clock // Now
	log     *slog.Logger
	vault   *vault.Vault
	meters  meters
	outage  outage
	bell    bell
	nodes   nodes
	id      string // of the store
	node    string // of this process
	schema  int64  // that this node knows
	old     atomic.Bool

	queue    queue
	closing  chan struct{}
	finished chan struct{}
	closed   sync.Once
	// background ends with stop.
	background sync.WaitGroup
	stop       context.CancelFunc
	// scopes remembers what the outcomes of a payment decide about, until its lease ends. known has the locks that are in the table.
	scopes memory[scope]
	known  memory[bool]
	reads  *reads
	// answered has the newest batches whose callers have their answers.
	answered answered
	takeover takeover
	// flush is the statement that makes all earlier commits durable. flushes: the database knows it.
	flush   string
	flushes atomic.Bool
}

var _ pay.Store = (*DB)(nil)

//go:embed migrations/*.sql
var migrations embed.FS

// Open connects to a database, migrates it if need be, and starts the committer. ErrNewer, ErrWorld,
// vault.ErrWrongMasterKey, or an error of the database.
func Open(ctx context.Context, o Options) (*DB, error) {
	config, err := parse(o.URL)
	if err == nil {
		settle(config.ConnConfig)
		err = tryOnce(ctx, config.ConnConfig, func(context.Context, *pgx.Conn) error { return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return open(ctx, o)
}

// open is Open of a database that was reached, and keeps sessions.
func open(ctx context.Context, o Options) (*DB, error) {
	d := &DB{
		node: rand.Text(), log: o.Logger, closing: make(chan struct{}), finished: make(chan struct{}), queue: queue{ops: make(chan *op, maxBatch)},
		scopes: newMemory[scope](memoryRows), known: newMemory[bool](memoryRows), reads: newReads(), flush: flushCommits,
	}
	d.Book = storekit.NewBook(func(ctx context.Context, keys []string, run func(storekit.BookTx) error) error {
		locks := []string{configuration}
		for _, id := range keys {
			locks = append(locks, keyLock(id))
		}
		return d.change(ctx, locks, func(t *tx) error { return run(t) })
	})
	d.knowTransactions()
	d.clock, d.time.local = d.Now, o.Clock
	if o.Clock == nil {
		d.time.local = failpoint.Now
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	config, err := parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := errors.Join(d.outage.start(), d.bell.start()); err != nil {
		return nil, err
	}
	own := config.ConnConfig.Copy() // a migration may take its time
	settle(own)
	bound(config.ConnConfig)
	settle(config.ConnConfig)
	config.ConnConfig.RuntimeParams["application_name"] = nodeName
	config.AfterConnect = durable
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if d.writers, err = pgxpool.NewWithConfig(ctx, d.writing(config.Copy())); err != nil {
		d.pool.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	d.schema, err = migrate(ctx, own)
	if err == nil {
		err = d.identify(ctx, o)
	}
	if err == nil {
		err = d.answered.open(o.Dir, d.id)
	}
	if err == nil {
		err = d.sees(ctx, d.pool)
	}
	if err == nil {
		if err = d.look(ctx); downClass(err) == DownLost {
			d.fail(ctx, DownLost, err) // readFile ends it
			err = nil
		}
	}
	if err == nil {
		err = d.readFile(ctx, o.Dir)
	}
	if err == nil && d.old.Load() {
		err = fmt.Errorf("%w than one that knows schema %d", ErrNewer, d.schema)
	}
	if err != nil {
		d.close()
		return nil, errors.Join(fmt.Errorf("open store: %w", err), d.outage.file.close(), d.answered.close())
	}
	d.addMonths(ctx)
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.background.Add(5)
	for _, works := range []func(context.Context){d.watch, d.mend, d.listen, d.notify, d.tidy} {
		go works(life)
	}
	go d.commit() //nolint:gosec // it outlives the opening
	return d, nil
}

// knowTransactions remembers the locks of transactions, whose rows the schema has.
func (d *DB) knowTransactions() {
	for n := range transactionLocks {
		d.known.Add(transactionLock(n), true)
	}
}

// bound makes the server end what hangs: a node that dies or stops inside a transaction keeps its locks for less
// than batchTime, so that others do not begin an outage.
// What the URL says counts more.
func bound(config *pgx.ConnConfig) {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	for name, value := range map[string]string{
		"lock_timeout":                        "8s",
		"idle_in_transaction_session_timeout": "4s",
	} {
		if _, set := config.RuntimeParams[name]; !set {
			config.RuntimeParams[name] = value
		}
	}
}

// migrate brings the schema up to date, and returns the one that this purser knows. Nodes that start
// together race; the loser looks again. A newer schema is left as it is.
func migrate(ctx context.Context, config *pgx.ConnConfig) (knows int64, err error) {
	err = withMigrations(config, func(provider *goose.Provider) (err error) {
		for range 10 {
			if _, err = provider.Up(ctx); err == nil {
				break
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		_, knows, err = provider.GetVersions(ctx)
		return err
	})
	return knows, err
}

// withMigrations opens what knows the versions of the schema.
func withMigrations(config *pgx.ConnConfig, run func(*goose.Provider) error) error {
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }() // nothing was left to write
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return run(provider)
}

// Names of settings.
const (
	settingID         = "id"
	settingVault      = "vault"
	settingWorld      = "world"
	settingPause      = "pause"
	settingExec       = "exec"
	settingRestored   = "restored"
	settingReconciled = "reconciled"
	settingRemoved    = "removed"
)

// identify makes or reads what a store is: its world and its keys.
func (d *DB) identify(ctx context.Context, o Options) error {
	if err := checkMark(ctx, d.pool); err != nil {
		return err
	}
	state, err := setting(ctx, d.pool, settingVault)
	if err != nil {
		return err
	}
	fresh := state == nil
	master, err := o.MasterKey(fresh)
	if err != nil {
		return err
	}
	if fresh {
		if err := d.create(ctx, master, o.World); err != nil {
			return err
		}
		if state, err = setting(ctx, d.pool, settingVault); err != nil {
			return err
		}
	}
	world, err := setting(ctx, d.pool, settingWorld)
	if err != nil {
		return err
	}
	if string(world) != o.World {
		return fmt.Errorf("%w: the database belongs to %s, and this program to %s", ErrWorld, worldName(string(world)), worldName(o.World))
	}
	id, err := setting(ctx, d.pool, settingID)
	if err != nil {
		return err
	}
	d.id = string(id)
	d.vault, err = vault.Open(master, state)
	return err
}

func worldName(world string) string {
	if world == pay.SandboxWorld {
		return "purser-sandbox"
	}
	return "an ordinary purser"
}

// create writes the identity of a new store. Of several nodes that do, one wins.
func (d *DB) create(ctx context.Context, master vault.MasterKey, world string) error {
	_, state, err := vault.New(master)
	if err != nil {
		return err
	}
	_, err = d.pool.Exec(ctx, `INSERT INTO settings SELECT * FROM unnest($1::text[], $2::bytea[])
		WHERE NOT EXISTS (SELECT FROM settings WHERE name = 'vault') ON CONFLICT DO NOTHING`,
		[]string{settingVault, settingID, settingWorld}, [][]byte{state, []byte(rand.Text()), []byte(world)})
	return err
}

// Close ends the committer and the connections. Operations that are queued are done. It returns the error
// of outcomes that wait for the database and are in no file.
func (d *DB) Close() error {
	d.closed.Do(func() { close(d.closing) })
	<-d.finished
	d.stop()
	d.background.Wait()
	if d.outage.down() == "" {
		d.leaveNodes(context.Background())
	}
	d.close()
	return errors.Join(d.lost(), d.answered.close())
}

func (d *DB) close() {
	d.writers.Close()
	d.pool.Close()
}

// Kind is "postgres".
func (d *DB) Kind() string { return "postgres" }

// unavailable says that the database did not do what it was asked: pay.ErrUnavailable, or the
// context's error.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if class := downClass(err); class != "" {
		return &downError{class}
	}
	return fmt.Errorf("%w: %w", pay.ErrUnavailable, err)
}
