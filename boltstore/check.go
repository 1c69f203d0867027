package boltstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// maxFaults bounds what a check reports.
const maxFaults = 50

// Report is what a check found.
type Report struct {
	Schema int    `json:"schema"`
	World  string `json:"world,omitempty"` // see pay.Store
	Size   int64  `json:"size"`            // of the file, in bytes
	// Backups are the marks of the backups that the store comes from, oldest first; none for
	// one that was never restored.
	Backups []Mark `json:"backups,omitempty"`
	// Restore is what is to be reconciled before payments begin again.
	Restore *pay.Restore `json:"restore,omitempty"`

	Keys     int            `json:"keys"`
	Wallets  int            `json:"wallets"`
	Payments int            `json:"payments"`
	Labels   map[string]int `json:"labels"` // payments by state and flag
	Events   int            `json:"events"`

	// Secrets: with the master key at hand, it was tried whether every secret can be read.
	Secrets bool `json:"secrets"`
	// Pages: the file's own structure was checked too, not only what is in it.
	Pages bool `json:"pages"`
	// Faults are the differences that were found; More: there are others.
	Faults []string `json:"faults"`
	More   bool     `json:"more,omitempty"`
}

// Err is nil if nothing is wrong, else an error that lists the faults.
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

// Check compares every index, counter, event and secret with the rows that they are made
// from, and returns the differences in one error. It is for tests and small stores: unlike
// everything else it reads the whole store in one transaction. A copy of a store in use is
// checked with [Copy.Check].
func (d *DB) Check(ctx context.Context) error {
	var r Report
	err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
		r, err = checkRows(ctx, tx, d.vault.Unseal)
		return err
	})
	return errors.Join(r.Err(), err)
}

// unsealer opens a secret, see vault.Vault.Unseal.
type unsealer func(sealed []byte, identity string) ([]byte, error)

// checker compares what a transaction sees.
type checker struct {
	tx     *bbolt.Tx
	unseal unsealer // nil: secrets are not tried
	report Report

	// What the rows add up to.
	counters pay.CounterCheck
	labels   map[string]int
	found    map[string]int  // index entries by bucket
	lacking  map[string]bool // buckets in which one is missing
	disputed map[string]int  // disputed payments, and how many events correct theirs
}

// errTooManyFaults ends a check that would only go on finding.
var errTooManyFaults = errors.New("and more")

// checkRows checks what a transaction sees. The error is what kept it from looking.
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
			c.payments, c.indexes, c.labelCounts, c.counted, c.events, c.eventIndexes, c.keys, c.organizations, c.wallets, c.accounts, c.sessions, c.audit,
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

// errUnreadable: the file's structure is broken, so that reading it ends in nowhere.
var errUnreadable = errors.New("the file is damaged")

// survive runs what reads a file that may be damaged: such a file leads bbolt to places
// that are not there, which would otherwise end the program.
func recoverFaults(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errUnreadable, p)
		}
	}()
	return read()
}

// fault notes a difference.
func (c *checker) fault(format string, args ...any) {
	if len(c.report.Faults) == maxFaults {
		c.report.More = true
		return
	}
	c.report.Faults = append(c.report.Faults, fmt.Sprintf(format, args...))
}

// each visits a bucket's entries until there are too many faults.
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

// genesisHash is what a world of a network looks like.
var genesisHash = regexp.MustCompile(`^0x[0-9a-f]{64}$`)

// meta checks what the store says about itself, and that all buckets are there. Its errors
// are about files that cannot be checked at all.
func (c *checker) meta() (err error) {
	meta := c.tx.Bucket(metaBucket)
	if meta == nil {
		return errNoStore
	}
	if err := checkSchema(meta); err != nil {
		return err
	}
	c.report.Schema = schema
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
		c.fault("the world %q is neither the sandbox nor a genesis hash", w)
	}
	if c.report.Backups, err = marksIn(meta); err != nil {
		c.fault("%v", err)
	}
	c.restore(meta)
	return nil
}

// restore holds what is to be reconciled against the marks.
func (c *checker) restore(meta *bbolt.Bucket) {
	r, err := restoredIn(meta)
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
