package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

const (
	// mendEvery is the pause before a node tries again to write.
	mendEvery = 100 * time.Millisecond
	// maxQueued bounds the memory of an outage.
	maxQueued = 1 << 16
	// keptFor bounds the time for which the database remembers a kept outcome.
	keptFor = "30 days"
)

// outage lasts from a batch that cannot be written until writing works again. New payments are refused.
// Outcomes of payments whose lease this node has are kept, because their money has moved. Leases are not
// extended: another node may reach the database and take them.
type outage struct {
	mu     sync.Mutex
	class  string // "": there is none
	since  time.Time
	queued []*kept
	// rows holds the payments as the kept outcomes will leave them.
	rows    map[string]*pay.Payment
	file    *outageFile // nil: there is no folder for one
	unsaved bool
	// full: the disk was full in this outage. It ends once there is room, and is looked at again from lookAgain on.
	full      bool
	lookAgain time.Time
	begins    chan struct{} // wakes mend

	// held has the last known rows of payments whose lease this node was granted.
	held *lru.Cache[string, *pay.Payment]
}

// kept is a change that waits for the database.
type kept struct {
	// ID is written into operations with the outcome, which makes it apply once.
	ID uuid.UUID
	// Batch may have written the outcome already; zero: none has.
	Batch   uuid.UUID
	Outcome pay.Outcome
	// owner of a lease that Batch may have granted, and whose call heard of an error. The outcome ends the
	// lease. It is not in the file, because leases end by themselves.
	owner string
	after *pay.Payment // once it is written
	// Row and Payload hold the payment before the outcome, as this node knows it: internal/codec. It is written again if the
	// database has lost it.
	Row     []byte `json:",omitempty"`
	Payload []byte `json:",omitempty"`
}

func (o *outage) start() error {
	o.rows, o.begins = map[string]*pay.Payment{}, make(chan struct{}, 1)
	var err error
	o.held, err = lru.New[string, *pay.Payment](memoryRows)
	return err
}

// state tells of an outage: "": there is none.
func (o *outage) state() (class string, since time.Time, queued int, unsaved bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.class, o.since, len(o.queued), o.unsaved
}

func (o *outage) down() string {
	class, _, _, _ := o.state()
	return class
}

// hold remembers the row of a payment while this node has its lease.
func (o *outage) hold(p *pay.Payment) {
	if p.Lease.Owner == "" {
		o.held.Remove(p.ID)
		return
	}
	o.held.Add(p.ID, p)
}

// fail begins an outage.
func (d *DB) fail(ctx context.Context, class string, cause error) {
	o := &d.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.class != "" {
		o.becomes(class)
		return
	}
	d.log.ErrorContext(ctx, "store: cannot write, new payments are refused", "reason", reasons[class], "error", cause)
	o.begin(class, d.clock())
}

// begin is called with mu held.
func (o *outage) begin(class string, now time.Time) {
	o.becomes(class)
	o.since = now
	select {
	case o.begins <- struct{}{}:
	default:
	}
}

// becomes sets the cause. It is called with mu held.
func (o *outage) becomes(class string) {
	o.class = class
	o.full = o.full || class == DownFull
}

// answerDown answers operations that cannot be written. batch may have written them all the same; zero:
// it has not. Outcomes are in the file before their callers hear that they are kept. If the outage has ended
// meanwhile, it begins again, because only mend writes what is kept.
func (d *DB) answerDown(ctx context.Context, ops []*op, class string, batch uuid.UUID) {
	o := &d.outage
	o.mu.Lock()
	if o.class == "" {
		o.begin(class, d.clock())
	}
	answers, old := make([]error, len(ops)), len(o.queued)
	for i, op := range ops {
		if op.granted != nil && batch != uuid.Nil {
			o.queued = append(o.queued, d.undo(op, batch)...)
		}
		answers[i] = &downError{o.class}
		if op.keep == nil {
			continue
		}
		p, out, err := op.keep(ctx)
		switch {
		case err != nil:
			answers[i] = err
		case len(o.queued) >= maxQueued:
			answers[i] = fmt.Errorf("%w: too many outcomes wait for the database", pay.ErrUnavailable)
		default:
			k := &kept{ID: uuid.New(), Batch: batch, Outcome: out}
			if was, known := o.held.Peek(p.ID); known && o.rows[p.ID] == nil {
				k.Row, k.Payload = codec.EncodeRow(was), codec.EncodePayload(was)
			}
			o.rows[p.ID] = p
			o.queued = append(o.queued, k)
			answers[i] = fmt.Errorf("%w: %s", pay.ErrQueued, reasons[o.class])
		}
	}
	d.keepInFile(ctx, o.queued[old:])
	o.mu.Unlock()
	for i, op := range ops {
		op.answer <- answers[i]
	}
}

// keepInFile appends outcomes to the file. It is called with mu held.
func (d *DB) keepInFile(ctx context.Context, list []*kept) {
	list = slices.DeleteFunc(slices.Clone(list), func(k *kept) bool { return k.owner != "" })
	if len(list) == 0 {
		return
	}
	err := errors.New("no folder is configured for it")
	if d.outage.file != nil {
		err = d.outage.file.append(list)
	}
	if err != nil {
		d.outage.unsaved = true
		d.log.ErrorContext(ctx, "store: outcomes wait in memory alone, and a kill would lose them, because their file cannot be written", "outcomes", len(list), "error", err)
	}
}

// undo returns the end of a lease that a batch may have granted. Its call hears of an error, so that
// nothing is signed under it.
func (d *DB) undo(o *op, batch uuid.UUID) []*kept {
	p, created := o.granted()
	if p == nil {
		return nil
	}
	out := pay.Outcome{PaymentID: p.ID, Fence: p.Lease.Fence, At: d.clock().UTC(), Release: true}
	if created {
		out.Verdict, out.Reason = pay.VerdictVoid, "the journal could not be written, so nothing was signed"
	}
	return []*kept{{ID: uuid.New(), Batch: batch, Outcome: out, owner: p.Lease.Owner}}
}

// keepOutcome applies an outcome to the last known row. It is called with mu of the outage held.
func (d *DB) keepOutcome(ctx context.Context, out pay.Outcome) (*pay.Payment, pay.Effects, error) {
	o := &d.outage
	if out.Resolution != nil || out.Canceling != nil { // the operator can ask again
		return nil, pay.Effects{}, &downError{o.class}
	}
	was, known := o.rows[out.PaymentID]
	if !known {
		was, known = o.held.Get(out.PaymentID)
	}
	if !known {
		if !readable(o.class) {
			return nil, pay.Effects{}, &downError{o.class}
		}
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		var err error
		if was, err = d.Payment(ctx, out.PaymentID); err != nil {
			return nil, pay.Effects{}, fmt.Errorf("%w; read payment: %w", &downError{o.class}, err)
		}
	}
	if out.Claims() { // the database asks again when it is written
		for id, p := range o.rows {
			if id != out.PaymentID && transactionKey(p.Transaction) == transactionKey(out.Transaction) {
				return nil, pay.Effects{}, pay.ErrTransactionKnown
			}
		}
	}
	p := was.Clone()
	fx, err := p.Apply(out)
	return p, fx, err
}

// mend writes what waits, once that works, and ends the outage.
func (d *DB) mend(ctx context.Context) {
	defer d.background.Done()
	pause := time.NewTimer(mendEvery)
	defer pause.Stop()
	for {
		select {
		case <-d.outage.begins:
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		if d.outage.down() != "" {
			if err := d.resume(ctx); err != nil {
				d.stillDown(err)
			}
		}
		pause.Reset(mendEvery)
	}
}

func (d *DB) stillDown(err error) {
	d.outage.mu.Lock()
	defer d.outage.mu.Unlock()
	class := downClass(err)
	if class == DownReplaced && d.outage.class != class {
		d.log.Error("store: " + reasons[class])
	}
	if class != "" {
		d.outage.becomes(class)
	}
}

// resume writes the outcomes that wait, in their order, and lets operations through again.
func (d *DB) resume(ctx context.Context) error {
	o := &d.outage
	known, wait := d.recognize(ctx), d.sees(ctx, d.pool)
	switch {
	case downClass(known) == DownLost:
		d.takeover.over()
		if err := d.makeUp(ctx); err != nil {
			return err
		}
	case known != nil || wait != nil:
		return cmp.Or(known, wait)
	}
	for {
		o.mu.Lock()
		list := slices.Clone(o.queued[:min(len(o.queued), maxBatch)])
		looks := o.full && len(list) == 0
		o.mu.Unlock()
		if looks {
			if err := d.hasRoom(ctx); err != nil {
				return err
			}
		}
		if err := d.writeKept(ctx, list); err != nil {
			return err
		}
		o.mu.Lock()
		if o.queued = o.queued[len(list):]; len(o.queued) == 0 && looks == o.full {
			defer o.mu.Unlock()
			return d.endOutage(ctx)
		}
		o.mu.Unlock()
	}
}

// endOutage is called with mu held.
func (d *DB) endOutage(ctx context.Context) error {
	o := &d.outage
	if o.file != nil {
		if err := o.file.clear(); err != nil { // its outcomes apply once, so that they may be there again
			d.log.WarnContext(ctx, "store: the file of kept outcomes was not cleared", "error", err)
		}
	}
	d.log.InfoContext(ctx, "store: writing again", "after", d.clock().Sub(o.since).String())
	o.class, o.since, o.queued, o.unsaved, o.full, o.lookAgain = "", time.Time{}, nil, false, false, time.Time{}
	clear(o.rows)
	return nil
}

// writeKept writes kept changes in one batch. Those that the database has already are left out.
func (d *DB) writeKept(ctx context.Context, list []*kept) error {
	look, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	list, err := d.unwritten(look, list)
	if err == nil {
		err = d.insertAgain(look, rowsOf(list), false)
	}
	if err != nil {
		return err
	}
	ops := []*op{{run: func(s *state) error { // proves that the database can be written
		s.applied = append(s.applied, uuid.New())
		return nil
	}}}
	for _, k := range list {
		ops = append(ops, d.opOf(ctx, k))
	}
	b := &batch{DB: d, slot: keptSlot}
	if err := b.write(ctx, ops); err != nil {
		_, lost := errors.AsType[*lostCommit](err)
		if lost || downClass(err) != "" || ctx.Err() != nil || len(list) == 0 {
			return err
		}
		return d.writeEach(ctx, list, err)
	}
	for i, k := range list {
		if err := b.results[i+1]; err != nil {
			k.after = nil
			d.log.ErrorContext(ctx, "store: a kept outcome no longer applies", "payment", k.Outcome.PaymentID, "outcome", string(k.Outcome.Verdict),
				"transaction", k.Outcome.Transaction, "at", k.Outcome.At, "error", err) // after a restore it is the only trace
		}
		if k.after != nil {
			d.wrote(k.after)
		}
	}
	return nil
}

// writeEach writes kept changes one by one, because the database refuses one of them. That one is given up: recovery
// reads from the chain what became of its payment. Conflicts with other transactions are no refusals, and are tried again.
func (d *DB) writeEach(ctx context.Context, list []*kept, refusal error) error {
	refused, told := errors.AsType[*pgconn.PgError](refusal)
	if !told || strings.HasPrefix(refused.Code, "40") {
		return refusal
	}
	if len(list) == 1 {
		d.log.ErrorContext(ctx, "store: the database refuses a kept outcome", "payment", list[0].Outcome.PaymentID, "outcome", string(list[0].Outcome.Verdict),
			"transaction", list[0].Outcome.Transaction, "at", list[0].Outcome.At, "error", refusal)
		return nil
	}
	for _, k := range list {
		if err := d.writeKept(ctx, []*kept{k}); err != nil {
			return err
		}
	}
	return nil
}

// unwritten leaves out the changes that are in the database, and the ends of leases that are not.
func (d *DB) unwritten(ctx context.Context, list []*kept) (rest []*kept, err error) {
	done := map[uuid.UUID]bool{}
	ids := make([]uuid.UUID, len(list))
	for i, k := range list {
		ids[i] = k.ID
		if _, known := done[k.Batch]; k.Batch != uuid.Nil && !known {
			if done[k.Batch], err = d.committed(ctx, k.Batch); err != nil {
				return nil, err
			}
		}
	}
	// It writes what it finds: its commit waits until that is durable. Otherwise a failover could take it back.
	rows, err := d.pool.Query(ctx, `UPDATE operations SET void = void WHERE id = ANY($1) AND NOT void RETURNING id`, ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		done[id] = true
	}
	for _, k := range list {
		if !done[k.ID] && done[k.Batch] == (k.owner != "") {
			rest = append(rest, k)
		}
	}
	return rest, rows.Err()
}

// opOf returns the operation that writes a kept change.
func (d *DB) opOf(ctx context.Context, k *kept) *op {
	out := k.Outcome
	o := d.on(out.PaymentID, func(s *state) error {
		if k.owner != "" {
			p, err := s.payment(out.PaymentID)
			if errors.Is(err, pay.ErrPaymentNotFound) || err == nil && (p.Lease.Fence != out.Fence || p.Lease.Owner != k.owner) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		p, _, err := d.record(ctx, s, out)
		if err == nil {
			s.applied = append(s.applied, k.ID)
			k.after = p
		}
		return err
	})
	o.wants = d.wantOutcome(out)
	return o.claiming(out)
}

// readFile takes over the outcomes that an earlier run has kept. Nothing new begins until they are written.
func (d *DB) readFile(ctx context.Context, dir string) error {
	if dir == "" {
		return nil
	}
	identity := "outcomes/" + d.id
	file, list, err := openOutageFile(ctx, dir, d.id,
		func(b []byte) ([]byte, error) { return d.vault.Seal(b, identity) }, func(b []byte) ([]byte, error) { return d.vault.Unseal(b, identity) })
	if err != nil {
		return err
	}
	d.outage.file = file
	d.tellOfOthers(ctx, dir)
	if len(list) > 0 {
		d.outage.queued = list
		d.log.WarnContext(ctx, "store: outcomes that an earlier run has kept are written first", "outcomes", len(list))
		if d.outage.class == "" {
			d.outage.class, d.outage.since = DownAway, d.clock()
		}
	}
	if d.outage.class == "" {
		return nil
	}
	if err := d.resume(ctx); err != nil {
		d.stillDown(err)
		d.log.ErrorContext(ctx, "store: kept outcomes cannot be written yet, new payments are refused", "error", err)
	}
	return nil
}

// tellOfOthers warns of outcomes that wait in the folder for another database: the node may have got another URL.
func (d *DB) tellOfOthers(ctx context.Context, dir string) {
	paths, _ := filepath.Glob(outagePath(dir, "*"))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 && path != outagePath(dir, d.id) {
			d.log.ErrorContext(ctx, "store: outcomes wait here for another database: start purser on that one once", "file", path)
		}
	}
}

// lost returns an error that counts the outcomes which closing loses.
func (d *DB) lost() error {
	o := &d.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.file.close()
	for _, k := range o.queued {
		switch {
		case k.owner != "":
		case o.unsaved:
			d.log.Error("store: lost an outcome that could not be written", "payment", k.Outcome.PaymentID, "outcome", string(k.Outcome.Verdict))
			err = errors.Join(err, fmt.Errorf("the outcome of payment %s could not be written", k.Outcome.PaymentID))
		default:
			d.log.Warn("store: an outcome waits in its file for the next start", "payment", k.Outcome.PaymentID, "outcome", string(k.Outcome.Verdict))
		}
	}
	return err
}
