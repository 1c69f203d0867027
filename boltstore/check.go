package boltstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// maxFaults bounds the faults of a report.
const maxFaults = 50

// Report holds the findings of a check.
type Report struct {
	Schema int    `json:"schema"`
	World  string `json:"world,omitempty"` // "sandbox", or empty
	// Genesis holds the hash of block 0 by network, as far as an RPC has told it.
	Genesis map[string]string `json:"genesis,omitempty"`
	Size    int64             `json:"size"` // of the file, in bytes
	// Backups lists the marks of the backups that the store comes from, oldest first.
	Backups []Mark `json:"backups,omitempty"`
	// Restore holds the gap that reconciling must close before payments begin again.
	Restore *pay.Restore `json:"restore,omitempty"`

	// Removed is the time before which closed payments were removed; zero: none was.
	Removed time.Time `json:"removed_before,omitzero"`

	Keys     int            `json:"keys"`
	Wallets  int            `json:"wallets"`
	Payments int            `json:"payments"`
	Labels   map[string]int `json:"labels"` // payments by state and flag
	Events   int            `json:"events"`

	// Secrets reports that every secret was opened with the master key.
	Secrets bool `json:"secrets"`
	// Pages reports that the structure of the file was checked as well as its rows.
	Pages bool `json:"pages"`
	// Faults lists the differences that were found; More reports that there are others.
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

// Check compares every index, counter, event and secret with the rows that make it up, and
// returns the differences in one error. It is for tests and small stores, because it reads the
// whole store in one transaction. For a store in use, check a copy: [Copy.Check].
func (d *DB) Check(ctx context.Context) error {
	var r Report
	err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
		r, err = checkRows(ctx, tx, d.vault.Load().Unseal)
		return err
	})
	return errors.Join(r.Err(), err)
}

// unsealer opens a secret: see vault.Vault.Unseal.
type unsealer func(sealed []byte, identity string) ([]byte, error)

// checker compares the rows and indexes that a transaction sees.
type checker struct {
	tx     *bbolt.Tx
	unseal unsealer // nil: secrets are not tried
	report Report

	// The sums of the rows.
	counters pay.CounterCheck
	labels   map[string]int
	found    map[string]int  // index entries by bucket
	lacking  map[string]bool // buckets in which one is missing
	disputed map[string]int  // disputed payments, and how many events correct theirs
}

// errTooManyFaults ends a check that has found enough.
var errTooManyFaults = errors.New("and more")

// checkRows checks the rows that a transaction sees. It fails if the store cannot be checked at
// all.
func checkRows(ctx context.Context, tx *bbolt.Tx, unseal unsealer) (Report, error) {
	c := &checker{
		tx: tx, unseal: unseal,
		report: Report{Secrets: unseal != nil, Faults: []string{}, Size: tx.Size(), Labels: map[string]int{}},
		labels: map[string]int{}, found: map[string]int{}, lacking: map[string]bool{}, disputed: map[string]int{},
	}
	err := recoverFaults(func() error {
		if err := c.meta(); err != nil {
			return err
		}
		for _, part := range []func(context.Context) error{
			c.payments, c.payloads, c.indexes, c.labelCounts, c.counted, c.events, c.eventIndexes, c.keys, c.replaced, c.organizations, c.wallets, c.lent, c.accounts, c.sessions, c.audit, c.declined, c.notices, c.approvals,
		} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	maps.Copy(c.report.Labels, c.labels)
	switch {
	case errors.Is(err, errTooManyFaults):
		c.report.More, err = true, nil
	case errors.Is(err, errUnreadable):
		c.fault("%v", err)
		err = nil
	}
	return c.report, err
}

// errUnreadable: the structure of the file is broken.
var errUnreadable = errors.New("the file is damaged")

// recoverFaults turns panics and memory faults of a reader into errors. A damaged file leads
// bbolt to addresses that do not exist, which would otherwise end the program.
func recoverFaults(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errUnreadable, p)
		}
	}()
	return read()
}

// fault adds a fault to the report.
func (c *checker) fault(format string, args ...any) {
	if len(c.report.Faults) == maxFaults {
		c.report.More = true
		return
	}
	c.report.Faults = append(c.report.Faults, fmt.Sprintf(format, args...))
}

// each visits the entries of a bucket until there are too many faults.
func (c *checker) each(ctx context.Context, bucket []byte, visit func(k, v []byte)) error {
	n := 0
	return c.tx.Bucket(bucket).ForEach(func(k, v []byte) error {
		if n++; n%scanRows == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		visit(k, v)
		if c.report.More {
			return errTooManyFaults
		}
		return nil
	})
}

func (c *checker) has(bucket, key []byte) bool { return hasKey(c.tx.Bucket(bucket), key) }

// genesisHash matches the hash of block 0.
var genesisHash = regexp.MustCompile(`^0x[0-9a-f]{64}$`)

// meta checks the meta bucket, and that all buckets exist. It fails if the file cannot be checked
// at all.
func (c *checker) meta() (err error) {
	meta := c.tx.Bucket(metaBucket)
	if meta == nil {
		return errNoStore
	}
	if err := checkSchema(meta); err != nil {
		return err
	}
	c.report.Schema, _ = strconv.Atoi(string(meta.Get(schemaKey))) // it is a number that was checked
	known := map[string]bool{}
	for _, name := range allBuckets {
		known[string(name)] = true
		if c.tx.Bucket(name) == nil {
			return fmt.Errorf("%w: the bucket %s is missing", errUnreadable, name)
		}
	}
	err = c.tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
		if !known[string(name)] {
			c.fault("there is an unknown bucket %q", name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(meta.Get(storeIDKey)) == 0 || len(meta.Get(vaultKey)) == 0 {
		c.fault("the store has no id or no wrapped keys")
	}
	c.report.World = string(meta.Get(worldKey))
	if w := c.report.World; w != "" && w != Sandbox && !genesisHash.MatchString(w) {
		c.fault("the world %q is not the sandbox", w)
	}
	if c.report.Genesis, err = storekit.Setting[map[string]string](settings{c.tx}, storekit.Genesis); err != nil {
		c.fault("%v", err)
	}
	for network, hash := range c.report.Genesis {
		if !genesisHash.MatchString(hash) {
			c.fault("the genesis hash %q of %s is none", hash, network)
		}
	}
	if c.report.Backups, err = marksIn(meta); err != nil {
		c.fault("%v", err)
	}
	if c.report.Removed, err = removedIn(c.tx); err != nil {
		c.fault("%v", err)
	}
	c.counters.Removed = c.report.Removed
	c.restore()
	return nil
}

// restore compares the pending reconciliation with the marks.
func (c *checker) restore() {
	r, err := metaIn[pay.Restore](c.tx, reconcilingKey)
	if err != nil {
		c.fault("%v", err)
		return
	}
	c.report.Restore = r
	noticed := slices.ContainsFunc(c.report.Backups, func(m Mark) bool { return m.pending() && !m.unopened() })
	if noticed != (r != nil) {
		c.fault("the marks of its backups contradict what is to be reconciled")
	}
}

var errNoStore = errors.New("this is not a purser store")
