package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/purserpay/purser/internal/failpoint"
)

// batch holds operations that become durable together.
type batch struct {
	*DB
	// slot remembers the batch once it is answered. told has the batches that the database must know.
	slot int
	told []toldBatch
	// lossy: the database may have lost commits, because the batch is part of making up for that.
	lossy   bool
	ops     []*op
	results []error
	// live lists the operations that take part: the locks of the others could not be found.
	live  []int
	locks []string // sorted
	// id is new for each try. Ids grow, so that the index of operations grows at its end.
	id uuid.UUID
	// careful: ids of new rows are looked for first, because one was taken.
	careful bool
	// committing: the commit was sent. visible: it was done, and may not be durable yet.
	committing, visible bool
	// early: the commit ends the locks before it is durable.
	early bool
}

// write makes operations durable within batchTime. A lostCommit says that they may be in the database
// all the same.
func (b *batch) write(ctx context.Context, ops []*op) error {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	b.ops, b.results = ops, make([]error, len(ops))
	for i, o := range ops {
		names, err := o.lockNames(ctx)
		if downClass(err) != "" || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if b.results[i] = err; err == nil {
			b.locks, b.live = append(b.locks, names...), append(b.live, i)
		}
	}
	slices.Sort(b.locks)
	b.locks = slices.Compact(b.locks)
	return b.transact(ctx)
}

// transact runs the batch until its outcome is known.
func (b *batch) transact(ctx context.Context) (err error) {
	if len(b.live) == 0 {
		return nil
	}
	for range maxTries {
		b.id, b.committing, b.visible = uuid.Must(uuid.NewV7()), false, false
		err = b.try(ctx)
		if tablesGone(err) {
			err = errors.Join(b.recognize(ctx), err)
		}
		var refused *pgconn.PgError
		told := errors.As(err, &refused) && !connectionLost(err)
		_, lost := errors.AsType[*lostConnection](err)
		switch {
		case err == nil:
			return nil
		case b.committing && (!told || b.visible):
			if told && b.flushes.Swap(false) {
				b.log.ErrorContext(ctx, "store: the database refuses to flush behind a commit, so locks wait for the disk from now on", "error", err)
			}
			done, lookErr := b.committed(ctx, b.id)
			if lookErr != nil {
				return &lostCommit{fmt.Errorf("the answer of a commit was lost: %w; %w", err, lookErr), b.id}
			}
			if done {
				b.answer(ctx)
				return nil
			}
		case told && refused.Code == uniqueViolation:
			b.careful = true
		case told && (refused.Code == "40001" || refused.Code == "40P01"), errors.Is(err, errLockGone):
		case lost && ctx.Err() == nil: // nothing was committed
		default:
			return err
		}
		b.meters.repeats.Add(1)
		b.log.WarnContext(ctx, "store: a batch is repeated", "error", err)
	}
	return err
}

const uniqueViolation = "23505"

// committed finds out whether a batch whose answer was lost is in the database. It takes the batch's
// id itself, and marks it as void. While the batch may still commit, that waits; afterwards, the batch cannot
// commit any more. The mark tells whose row it is, because the answer to this may be lost, too.
func (d *DB) committed(ctx context.Context, id uuid.UUID) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime) // the batch may have used up its time
	defer cancel()
	for range maxTries {
		row := d.pool.QueryRow(ctx, `INSERT INTO operations (id, void) VALUES ($1, true)
			ON CONFLICT (id) DO UPDATE SET void = operations.void RETURNING NOT operations.void`, id)
		if err = row.Scan(&done); err == nil {
			return done, nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return false, err
		}
	}
	return false, err
}

// try runs the operations in one transaction.
func (b *batch) try(ctx context.Context) error {
	acquired := false
	err := b.writers.AcquireFunc(ctx, func(c *pgxpool.Conn) (err error) {
		acquired = true
		defer func() {
			if err != nil && c.Conn().IsClosed() {
				err = &lostConnection{err}
			} else if err != nil {
				ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
				defer cancel()
				_, _ = c.Exec(ended, "rollback") // a connection that cannot is not used again
			}
		}()
		s := newState(b.reads, len(b.ops))
		s.careful, s.holds = b.careful, b.holds
		if err := b.begin(ctx, c.Conn(), s); err != nil {
			return err
		}
		if err := b.decide(ctx, c.Conn(), s); err != nil {
			return err
		}
		return b.end(ctx, c.Conn(), s)
	})
	if err != nil && !acquired {
		err = &lostConnection{err}
	}
	return err
}

// decide runs the operations. Operations that lack an answer ask together, and run again behind the others.
func (b *batch) decide(ctx context.Context, c *pgx.Conn, s *state) error {
	left := b.live
	for range maxRounds {
		var again []int
		missing := map[question]bool{}
		for _, i := range left {
			b.results[i] = guard(func() error { return b.ops[i].run(s) })
			if errors.Is(b.results[i], errLocks) { // a batch that has locks must not wait for more
				b.ops[i].locks = slices.Concat(b.ops[i].locks, s.unlocked)
				s.unlocked = nil
			}
			if len(s.missing) > 0 {
				again = append(again, i)
				maps.Copy(missing, s.missing)
				clear(s.missing)
			}
		}
		if len(again) == 0 {
			return nil
		}
		s.missing, left = missing, again
		if err := b.ask(ctx, c, s); err != nil {
			return err
		}
	}
	return errors.New("an operation asks without end")
}

// guard turns a panic into an error, because a bug in one operation must not end the others.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the store: %v", p)
		}
	}()
	return f()
}

// errLockGone: a lock that this node knows has no row any more, because the database lost its newest commits.
var errLockGone = errors.New("a lock is missing in the database")

// begin starts the transaction, takes the locks, and asks the first questions. It does so in one trip, because other nodes
// may wait for the locks.
func (b *batch) begin(ctx context.Context, c *pgx.Conn, s *state) error {
	var trip pgx.Batch
	trip.Queue("begin isolation level read committed")
	if b.early = b.flushes.Load(); b.early {
		trip.Queue("set local synchronous_commit = off")
	}
	unlisted := b.unlisted()
	if len(unlisted) > 0 {
		trip.Queue(insertLocks, bytesFrom(unlisted))
	}
	first := trip.Len()
	trip.Queue(takeLocks, bytesFrom(b.locks))
	b.told = b.answered.list(b.Now())
	s.want(question{askStore, string(bytesOfIDs(b.told)), ""})
	for _, i := range b.live {
		b.ops[i].ask(s)
	}
	asked := s.queue(&trip)
	began := time.Now()
	answers := c.SendBatch(ctx, &trip)
	err := execAll(answers, first)
	if err == nil {
		err = b.haveLocks(answers)
	}
	if err == nil {
		err = s.receive(answers, asked)
	}
	if err == nil && !b.lossy {
		err = b.recognizes([]byte(s.storeID), s.batches, len(b.told))
	}
	err = errors.Join(err, answers.Close())
	b.meters.lockTime.Add(int64(time.Since(began)))
	return err
}

// holds reports whether the batch has a lock.
func (b *batch) holds(name string) bool {
	_, has := slices.BinarySearch(b.locks, name)
	return has
}

// haveLocks reads the answer to takeLocks. Without all rows, other nodes may hold the same locks.
func (b *batch) haveLocks(answers pgx.BatchResults) error {
	tag, err := answers.Exec()
	if err != nil || int(tag.RowsAffected()) == len(b.locks) {
		return err
	}
	for _, name := range b.locks {
		b.known.Remove(name)
	}
	return errLockGone
}

const (
	insertLocks = `INSERT INTO locks (name) SELECT * FROM unnest($1::bytea[]) ON CONFLICT DO NOTHING`
	takeLocks   = `SELECT FROM locks WHERE name = ANY($1) ORDER BY name FOR UPDATE`
)

func bytesFrom(names []string) array[[]byte] {
	list := make(array[[]byte], len(names))
	for i, name := range names {
		list[i] = []byte(name)
	}
	return list
}

// unlisted returns the locks that may have no row yet.
func (b *batch) unlisted() (list []string) {
	for _, name := range b.locks {
		if !b.known.Contains(name) {
			list = append(list, name)
		}
	}
	return list
}

func execAll(answers pgx.BatchResults, n int) error {
	for range n {
		if _, err := answers.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// ask asks what is missing.
func (b *batch) ask(ctx context.Context, c *pgx.Conn, s *state) error {
	var trip pgx.Batch
	asked := s.queue(&trip)
	answers := c.SendBatch(ctx, &trip)
	return errors.Join(s.receive(answers, asked), answers.Close())
}

// end writes the state and commits. The locks end with the commit, before it is durable, so that others need not wait
// for the disk or a standby. Their commits come later in the database's log, so none is durable without this one.
func (b *batch) end(ctx context.Context, c *pgx.Conn, s *state) error {
	var trip pgx.Batch
	if err := s.flush(&trip); err != nil {
		return err
	}
	wrote := trip.Len() > 0 || len(s.applied) > 0
	if wrote {
		if len(s.applied) > 0 {
			trip.Queue(`INSERT INTO operations (id, at) SELECT unnest($1::uuid[]), now() + interval '`+keptFor+`'`, s.applied)
		}
		trip.Queue(`INSERT INTO operations (id) VALUES ($1)`, pgtype.UUID{Bytes: b.id, Valid: true}) // an uuid.UUID would be sent as text
		failpoint.Here(failpoint.StoreCommitting)
	}
	trip.Queue("commit")
	commits := trip.Len()
	if wrote && b.early {
		trip.Queue(b.flush)
	}
	b.committing = wrote
	answers := c.SendBatch(ctx, &trip)
	err := execAll(answers, commits)
	b.visible = wrote && err == nil
	err = errors.Join(err, execAll(answers, trip.Len()-commits), answers.Close())
	if err != nil {
		return err
	}
	failpoint.Here(failpoint.StoreCommitted)
	if wrote {
		b.answer(ctx)
	}
	if wrote || !b.early { // else a crash may take new locks back
		for _, name := range b.locks {
			b.known.Add(name, true)
		}
	}
	return nil
}

// answer remembers the batch, whose callers hear of it now.
func (b *batch) answer(ctx context.Context) {
	b.answers(ctx, b.slot, toldBatch{id: b.id, at: b.Now(), order: b.answered.next()})
}

const keyPrefix = "key/"

// keyLock names the lock of a key: its payments, counters, sums and approvals.
func keyLock(id string) string { return keyPrefix + id }

// keyOfLock returns the key whose lock it is.
func keyOfLock(lock string) string { return strings.TrimPrefix(lock, keyPrefix) }

// transactionLocks is the number of locks of transactions. The schema has their rows.
const transactionLocks = 1 << 12

// transactionLock names the lock of the transactions whose hashes begin alike.
func transactionLock(n int) string { return fmt.Sprintf("transaction/%03x", n) }
