package boltstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Sandbox is the world of stores that belong to purser-sandbox.
const Sandbox = "sandbox"

// Options say how to open a store.
type Options struct {
	// Path of the database file; its folder is created if need be.
	Path string
	// MasterKey gives the key that wraps the store's secrets. It is called once, while the
	// file is locked; see [vault.From] and [vault.Given].
	MasterKey vault.Source
	// World is the required world: "" for an ordinary store, Sandbox for one of purser-sandbox.
	World string
	// Clock tells the time. Default: time.Now.
	Clock pay.Clock
	// Logger hears of outages. Default: discarded.
	Logger *slog.Logger
	// MinFree is the free disk space in bytes below which nothing new begins, so that outcomes
	// still fit. Default: 64 MiB.
	MinFree uint64
	// FreeSpace reads the free disk space of a folder. Default: the operating system's.
	FreeSpace func(dir string) (uint64, error)
	// Place identifies the file, so that a copy of it is noticed. Default: PlaceOf.
	Place func(path string) (Place, error)

	lockWait time.Duration // instead of the variable, in a test that holds the lock for long
}

const (
	// mmapSize is mapped at first, so that the file can grow without a new mapping, which would
	// wait for readers. It takes addresses, neither memory nor disk.
	mmapSize = 1 << (20 + 10*(bits.UintSize/64)) // 1 GiB, or 1 MiB of 32 bits
	// fileMode hides the file from other users, because it shows payers and payees.
	fileMode       = 0o600
	dirMode        = 0o700
	defaultMinFree = 64 << 20
)

// lockWait bounds the wait for another process that has the file open. Tests lower it.
var lockWait = 2 * time.Second

// Errors of opening.
var (
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("store is in use")
	// ErrNewer: the file was written by a newer purser.
	ErrNewer = errors.New("store has a newer schema")
	// ErrOlder: the file was written by an older purser, whose schema this one does not read.
	ErrOlder = errors.New("store has an older schema")
	// ErrWorld: the store belongs to another world.
	ErrWorld = errors.New("store of another world")
)

// DB keeps a pay.Store in a bbolt file. It is safe for concurrent use.
type DB struct {
	storekit.Book

	path    string
	id      string // of the file: what a reopened file must still have
	clock   pay.Clock
	log     *slog.Logger
	vault   atomic.Pointer[vault.Vault] // see rotation.go
	sandbox bool
	disk    *disk
	place   func(path string) (Place, error)

	// handle guards what the working set holds: the committer locks it to write, and readers to
	// read. All three are nil while the files cannot be opened. Only the committer replaces them.
	handle  sync.RWMutex
	tx      *bbolt.Tx // the working set; nil after a checkpoint that failed
	bolt    *bbolt.DB
	journal *journalFile
	// aged fires when it is time for a checkpoint. It is stopped while the journal is empty.
	aged *time.Timer
	// retry fires when it is time to try to end an outage.
	retry *time.Timer
	// copying is locked while there is a Copy.
	copying sync.Mutex
	// file identifies the open file, marks counts the backups that it comes from. replaced
	// reports that another file has taken its place. Only the committer uses them.
	file     os.FileInfo
	marks    int
	replaced bool
	// reconciling guards known, which Reconcile reads once.
	reconciling sync.Mutex
	known       map[usedAuthorization]bool
	claims      noticeClaims

	// turn is held by the goroutine that writes: the committer, or a caller that found no other one
	// writing. What only the committer uses belongs to the goroutine whose turn it is.
	turn      sync.Mutex
	ops       chan *op
	wake      chan struct{} // tells the committer of work that a caller has left
	snapshots chan chan snapshot
	closing   chan struct{}
	finished  chan struct{}
	closed    sync.Once
	result    error // of closing; read after finished

	// leased holds the rows of leased payments, batch the operations that are being written. Only the
	// committer uses them.
	leased map[string]*pay.Payment
	batch  *batch
	// keys and wallets hold decoded rows.
	keys    rowCache[pay.Key]
	wallets rowCache[pay.Wallet]
	outage  *outage                      // the committer's own; nil while writing works
	health  atomic.Pointer[outageStatus] // what Health tells about the outage
	meters  meters

	// resealing guards resealed. background counts the goroutine that seals again.
	resealing  sync.Mutex
	resealed   Resealed
	background sync.WaitGroup

	maxSessions int  // pay.MaxSessions, less in tests
	noSync      bool // for measuring without the disk
	hooks       hooks
}

// hooks let tests fail the disk.
type hooks struct {
	// commit wraps every commit.
	commit atomic.Pointer[func(commit func() error) error]
	// reopen runs before every reopening.
	reopen atomic.Pointer[func() error]
}

var _ pay.Store = (*DB)(nil)

// Open opens or creates a store and starts its committer. It ends the leases of earlier
// processes, because the file lock proves that they are gone. ErrLocked, ErrNewer, ErrOlder,
// ErrWorld, ErrJournal, vault.ErrWrongMasterKey, or an error of the file system.
func Open(ctx context.Context, o Options) (*DB, error) {
	db, err := open(ctx, o, false)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", o.Path, err)
	}
	return db, nil
}

func open(ctx context.Context, o Options, noSync bool) (*DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.World != "" && o.World != Sandbox {
		return nil, fmt.Errorf("a store cannot be opened for world %q", o.World)
	}
	if o.MasterKey == nil {
		return nil, errors.New("no master key")
	}
	d := &DB{
		path: o.Path, clock: o.Clock, log: o.Logger, sandbox: o.World == Sandbox, place: o.Place,
		ops: make(chan *op, maxBatch), wake: make(chan struct{}, 1), snapshots: make(chan chan snapshot), closing: make(chan struct{}), finished: make(chan struct{}),
		leased: map[string]*pay.Payment{}, maxSessions: pay.MaxSessions, noSync: noSync,
	}
	d.batch = newBatch(d, nil)
	d.Book = storekit.NewBook(func(ctx context.Context, _ []string, run func(storekit.BookTx) error) error {
		return d.do(ctx, &op{run: func(b *batch) error { return run(b) }})
	})
	d.aged, d.retry = stoppedTimer(), stoppedTimer()
	if d.clock == nil {
		d.clock = failpoint.Now
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.place == nil {
		d.place = PlaceOf
	}
	dir := filepath.Dir(o.Path)
	d.disk = newDisk(dir, o.MinFree, o.FreeSpace)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	bolt, err := d.openFile(os.O_CREATE, cmp.Or(o.lockWait, lockWait))
	if err != nil {
		return nil, err
	}
	if err := d.prepare(ctx, bolt, o); err != nil {
		if d.bolt == nil {
			err = errors.Join(err, bolt.Close())
		}
		return nil, errors.Join(err, d.closeFiles())
	}
	go d.commitLoop()
	d.resealInBackground()
	return d, nil
}

// openFile locks and maps the file. create is os.O_CREATE or 0: after an outage a file that
// vanished must not be replaced by an empty one.
func (d *DB) openFile(create int, wait time.Duration) (*bbolt.DB, error) {
	mapped := mmapSize
	if runtime.GOOS == "windows" {
		mapped = 0 // there the file itself would grow to it
	}
	bolt, err := openLocked(d.path, &bbolt.Options{
		Timeout: wait, InitialMmapSize: mapped, FreelistType: bbolt.FreelistMapType,
		NoStatistics: true, NoSync: d.noSync,
	}, create)
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%w: the file is locked, probably by another purser process with the same data directory; "+
			"stop that one or give this one its own PURSER_DATA_DIR", ErrLocked)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w (the file must be readable and writable for purser)", err)
	case err != nil:
		return nil, err
	}
	if d.file, err = os.Stat(d.path); err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return bolt, nil
}

// checkInPlace fails if the path names another file than the open one. Otherwise commits would go
// to a file that the next start does not read, for example after a backup was put in its place.
func (d *DB) checkInPlace() error {
	named, err := os.Stat(d.path)
	if err == nil && !os.SameFile(d.file, named) {
		d.replaced = true
		err = errReplaced
	}
	return err
}

var errReplaced = errors.New("another file was put in the place of the open one: stop this purser, and start it with the one that counts")

// openLocked opens a file for writing; it creates it only if create is os.O_CREATE. While it
// waited for the lock, another process may have put a compacted file in the place of this one.
// Then it fails, because writes would go to a file without a name.
func openLocked(path string, o *bbolt.Options, create int) (*bbolt.DB, error) {
	var file *os.File
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag&^os.O_CREATE|create, mode)
		file = f
		return f, err
	}
	bolt, err := bbolt.Open(path, fileMode, o)
	if err != nil {
		return nil, err
	}
	locked, err := file.Stat()
	if err == nil {
		var named os.FileInfo
		if named, err = os.Stat(path); err == nil && !os.SameFile(locked, named) {
			err = errors.New("the file was replaced while it was being opened; try again")
		}
	}
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return bolt, nil
}

// prepare checks or creates the file and unwraps its keys. It judges world, schema and master
// key before it changes anything in an existing store.
func (d *DB) prepare(ctx context.Context, bolt *bbolt.DB, o Options) error {
	world, fresh, err := identify(bolt)
	if err != nil {
		return err
	}
	if err := errors.Join(d.checkWorld(fresh, world), checkMark(bolt)); err != nil {
		return err
	}
	master, err := o.MasterKey(fresh)
	if err != nil {
		return err
	}
	if fresh {
		if err := d.create(bolt, master); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	}
	if err := bolt.View(func(tx *bbolt.Tx) error { return d.unlock(tx, master) }); err != nil {
		return err
	}
	err = d.enter(bolt, func(tx *bbolt.Tx, older string) error {
		return errors.Join(d.unlockReplayed(tx, master), d.arrive(tx, older))
	})
	if err != nil {
		return err
	}
	if err := d.guard(func() error { return d.lapseAll(ctx) }); err != nil {
		return fmt.Errorf("end the leases of an earlier process: %w", err)
	}
	if err := removeLeftovers(d.path); err != nil {
		d.log.Warn("store: an earlier copy is still there", "file", d.path, "error", err)
	}
	return nil
}

// arrive notes the opening, after which an older purser must not open the store.
func (d *DB) arrive(tx *bbolt.Tx, older string) error {
	was, err := d.settle(tx)
	if err != nil {
		return err
	}
	from := ""
	if was != nil {
		from = was.String()
		older = cmp.Or(older, "it was copied or moved from "+from)
	}
	if older != "" {
		if err := d.markCopy(tx, older, from); err != nil {
			return err
		}
	}
	opened, err := d.clock().UTC().MarshalText()
	if err != nil {
		return err
	}
	meta := tx.Bucket(metaBucket)
	if err := errors.Join(meta.Put(openedKey, opened), meta.Put(schemaKey, []byte(strconv.Itoa(schema)))); err != nil {
		return err
	}
	return d.beginReconciling(tx)
}

// identify reads the world of a store. fresh reports a file without a store.
func identify(bolt *bbolt.DB) (world string, fresh bool, err error) {
	err = bolt.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			if first, _ := tx.Cursor().First(); first != nil {
				return errNoStore
			}
			fresh = true
			return nil
		}
		world = string(meta.Get(worldKey))
		return checkSchema(meta)
	})
	return world, fresh, err
}

func (d *DB) checkWorld(fresh bool, world string) error {
	switch {
	case fresh:
		return nil
	case !d.sandbox && world == Sandbox:
		return fmt.Errorf("%w: it belongs to purser-sandbox, and payments signed in the sandbox would be valid on the "+
			"real network; use purser-sandbox or another data directory", ErrWorld)
	case d.sandbox && world != Sandbox:
		return fmt.Errorf("%w: it belongs to an ordinary purser, and purser-sandbox opens only its own stores; "+
			"use another data directory", ErrWorld)
	}
	return nil
}

// create writes the buckets and the identity of a new store in one transaction, so a store with
// a schema is complete. Before that it makes the name of the file durable, as bbolt does not.
func (d *DB) create(bolt *bbolt.DB, master vault.MasterKey) error {
	_, state, err := vault.New(master)
	if err != nil {
		return err
	}
	if err := vault.SyncDir(filepath.Dir(d.path)); err != nil {
		return err
	}
	return bolt.Update(func(tx *bbolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return fmt.Errorf("bucket %s: %w", name, err)
			}
		}
		meta := tx.Bucket(metaBucket)
		if d.sandbox {
			if err := meta.Put(worldKey, []byte(Sandbox)); err != nil {
				return err
			}
		}
		return errors.Join(
			meta.Put(schemaKey, []byte(strconv.Itoa(schema))),
			meta.Put(storeIDKey, []byte(rand.Text())),
			meta.Put(vaultKey, state),
		)
	})
}

// unlock opens the vault with the master key.
func (d *DB) unlock(tx *bbolt.Tx, master vault.MasterKey) error {
	meta := tx.Bucket(metaBucket)
	d.id = string(meta.Get(storeIDKey))
	v, err := vault.Open(master, meta.Get(vaultKey))
	if errors.Is(err, vault.ErrWrongMasterKey) {
		return fmt.Errorf("%w; check PURSER_MASTER_KEY or the master key file", err)
	}
	d.vault.Store(v)
	return err
}

// Close writes the operations that are queued, ends the committer and closes the file. The error
// counts outcomes that could not be written.
func (d *DB) Close() error {
	d.closed.Do(func() { close(d.closing) })
	<-d.finished
	d.background.Wait()
	return d.result
}

// Kind is "bolt".
func (d *DB) Kind() string { return "bolt" }
