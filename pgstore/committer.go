package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
)

const (
	// maxBatch bounds the operations of one transaction.
	maxBatch = 256
	// maxRounds bounds the round trips in which a batch asks.
	maxRounds = 200
	// maxTries bounds the transactions of a batch that the database ends, or whose answer is lost.
	maxTries = 5
)

var errClosed = fmt.Errorf("%w: store is closed", pay.ErrUnavailable)

// op holds one atomic operation on its way through the committer.
type op struct {
	// locks names what the operation decides about. It is asked outside of the transaction.
	locks func(ctx context.Context) ([]string, error)
	// wants asks, before the first round trip, what run will ask.
	wants func(s *state)
	// run decides and changes the state. It asks for everything before its first change: errAsk.
	run func(s *state) error
	// outlivesCaller keeps the operation in the queue after its caller has left.
	outlivesCaller bool
	// keep applies an outcome while nothing can be written; nil: the operation then fails. It is called with
	// the lock of the outage held.
	keep func(ctx context.Context) (*pay.Payment, pay.Outcome, error)
	// granted returns the payment whose lease run has granted, or nil.
	granted func() (p *pay.Payment, created bool)
	// done, if any, is called once the operation is durable.
	done func()

	state  atomic.Int32
	answer chan error
}

// States of an op. A caller can leave only before the committer has taken it.
const (
	waiting int32 = iota
	taken
	left
)

// do queues an operation and waits until it is durable.
func (d *DB) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil && !o.outlivesCaller {
		return err
	}
	o.answer = make(chan error, 1)
	leaves := ctx.Done()
	if o.outlivesCaller {
		leaves = nil // the queue is never full for long
	}
	select {
	case d.ops <- o:
	case <-leaves:
		return ctx.Err()
	case <-d.finished:
		return errClosed
	}
	select {
	case err := <-o.answer:
		return err
	case <-d.finished:
	case <-leaves:
		if o.state.CompareAndSwap(waiting, left) {
			return ctx.Err()
		}
		select {
		case err := <-o.answer:
			return err
		case <-d.finished:
		}
	}
	select {
	case err := <-o.answer:
		return err
	default:
		return errClosed
	}
}

// commitLoop writes what callers have queued.
func (d *DB) commitLoop() {
	defer close(d.finished)
	ctx := context.Background()
	for {
		select {
		case first := <-d.ops:
			d.serve(ctx, d.drain(first))
		case <-d.closing:
			for {
				select {
				case first := <-d.ops:
					d.serve(ctx, d.drain(first))
				default:
					return
				}
			}
		}
	}
}

// drain takes the other operations that are queued, up to maxBatch.
func (d *DB) drain(first *op) (ops []*op) {
	for o := first; ; {
		if o.state.CompareAndSwap(waiting, taken) {
			ops = append(ops, o)
		}
		if len(ops) == maxBatch {
			return ops
		}
		select {
		case o = <-d.ops:
		default:
			return ops
		}
	}
}

// serve makes operations durable and answers them, or keeps their outcomes.
func (d *DB) serve(ctx context.Context, ops []*op) {
	if d.outage.down() != "" {
		d.answerDown(ctx, ops, uuid.Nil)
		return
	}
	began := time.Now()
	results := make([]error, len(ops))
	batch, err := d.write(ctx, ops, results)
	d.meters.batches.Add(1)
	d.meters.operations.Add(uint64(len(ops)))
	d.meters.batchTime.Add(int64(time.Since(began)))
	if class := downClass(err); class != "" {
		d.fail(ctx, class, err)
		d.answerDown(ctx, ops, batch)
		return
	}
	for i, o := range ops {
		switch {
		case err != nil:
			results[i] = unavailable(ctx, err)
		case results[i] == nil && o.done != nil:
			o.done()
		}
		o.answer <- results[i]
	}
}

// write makes operations durable within batchTime. With an error it returns the batch that may be in the
// database all the same, or zero.
func (d *DB) write(ctx context.Context, ops []*op, results []error) (batch uuid.UUID, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	var locks []string
	var live []int
	for i, o := range ops {
		names, err := o.locks(ctx)
		if downClass(err) != "" || ctx.Err() != nil {
			return uuid.Nil, errors.Join(err, ctx.Err())
		}
		if results[i] = err; err == nil {
			locks, live = append(locks, names...), append(live, i)
		}
	}
	slices.Sort(locks)
	err = d.transact(ctx, ops, live, results, slices.Compact(locks))
	if lost, is := errors.AsType[*lostCommit](err); is {
		batch = lost.batch
	}
	return batch, err
}

// transact runs a batch until its outcome is known.
func (d *DB) transact(ctx context.Context, ops []*op, live []int, results []error, locks []string) (err error) {
	if len(live) == 0 {
		return nil
	}
	careful := false
	for range maxTries {
		id := uuid.New()
		b := batch{DB: d, id: id, locks: locks, careful: careful}
		err = b.try(ctx, ops, live, results)
		var refused *pgconn.PgError
		told := errors.As(err, &refused) && !connectionLost(err)
		_, lost := errors.AsType[*lostConnection](err)
		switch {
		case err == nil:
			return nil
		case b.committing && !told:
			done, lookErr := d.committed(ctx, id)
			if lookErr != nil {
				return &lostCommit{fmt.Errorf("the answer of a commit was lost: %w; %w", err, lookErr), id}
			}
			if done {
				return nil
			}
		case told && refused.Code == uniqueViolation:
			careful = true
		case told && (refused.Code == "40001" || refused.Code == "40P01"):
		case lost && ctx.Err() == nil: // nothing was committed
		default:
			return err
		}
		d.meters.repeats.Add(1)
		d.log.WarnContext(ctx, "store: a batch is repeated", "error", err)
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

// batch is one try to make operations durable together.
type batch struct {
	*DB
	id    uuid.UUID
	locks []string
	// careful: ids of new rows are looked for first, because one was taken.
	careful bool
	// committing: the commit was sent.
	committing bool
}

// try runs the operations in one transaction.
func (b *batch) try(ctx context.Context, ops []*op, live []int, results []error) error {
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
		s := newState()
		s.careful = b.careful
		for _, i := range live {
			if ops[i].wants != nil {
				ops[i].wants(s)
			}
		}
		if err := b.begin(ctx, c.Conn(), s); err != nil {
			return err
		}
		if err := b.decide(ctx, c.Conn(), s, ops, live, results); err != nil {
			return err
		}
		return b.end(ctx, c.Conn(), s)
	})
	if err != nil && !acquired {
		err = &lostConnection{err}
	}
	return err
}

// decide runs the operations. Those that lack an answer ask together, and run again behind the others.
func (b *batch) decide(ctx context.Context, c *pgx.Conn, s *state, ops []*op, left []int, results []error) error {
	for range maxRounds {
		var again []int
		missing := map[question]bool{}
		for _, i := range left {
			results[i] = guard(func() error { return ops[i].run(s) })
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

// begin starts the transaction, takes the locks, and asks the first questions.
func (b *batch) begin(ctx context.Context, c *pgx.Conn, s *state) error {
	var trip pgx.Batch
	trip.Queue("begin isolation level read committed")
	unlisted := b.unlisted()
	if len(unlisted) > 0 {
		trip.Queue(insertLocks, bytesFrom(unlisted))
	}
	trip.Queue(takeLocks, bytesFrom(b.locks))
	asked := s.queue(&trip)
	began := time.Now()
	answers := c.SendBatch(ctx, &trip)
	err := execAll(answers, 2+min(1, len(unlisted)))
	if err == nil {
		err = s.receive(answers, asked)
	}
	b.meters.lockTime.Add(int64(time.Since(began)))
	return errors.Join(err, answers.Close())
}

const (
	insertLocks = `INSERT INTO locks SELECT * FROM unnest($1::bytea[]) ON CONFLICT DO NOTHING`
	takeLocks   = `SELECT FROM locks WHERE name = ANY($1) ORDER BY name FOR UPDATE`
)

func bytesFrom(names []string) [][]byte {
	list := make([][]byte, len(names))
	for i, name := range names {
		list[i] = []byte(name)
	}
	return list
}

// unlisted returns the locks that may have no row yet.
func (b *batch) unlisted() (list []string) {
	for _, name := range b.locks {
		if !b.locked.Contains(name) {
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

// end writes the state and commits.
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
		trip.Queue(`INSERT INTO operations (id) VALUES ($1)`, b.id)
		failpoint.Here(failpoint.StoreCommitting)
	}
	trip.Queue("commit")
	b.committing = wrote
	answers := c.SendBatch(ctx, &trip)
	err := errors.Join(execAll(answers, trip.Len()), answers.Close())
	if err != nil {
		return err
	}
	failpoint.Here(failpoint.StoreCommitted)
	for _, name := range b.locks {
		b.locked.Add(name, struct{}{})
	}
	return nil
}

// keyLock names the lock of a key: its payments, counters and approvals.
func keyLock(id string) string { return "key/" + id }

// walletLock names the lock of a wallet's daily sums, to which all keys add that draw from it.
func walletLock(id string) string { return "wallet/" + id }

// counterLocks names the locks of counters that a key may share with others.
func counterLocks(keyID string, list []pay.Counter) (names []string) {
	for _, c := range list {
		if c != "" && !strings.Contains(string(c), keyID) {
			names = append(names, "counter/"+string(c))
		}
	}
	return names
}
