package notices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
)

// Options configure a Sender. Store and Guard are required.
type Options struct {
	Store        pay.Outbox
	Destinations []Destination
	// Wants selects the kinds that are sent. Nil: see [ParseKinds].
	Wants   func(pay.NoticeKind) bool
	Signers []*standardwebhooks.Webhook // none: messages are not signed
	Guard   guard.Rules
	// PublicURL is the origin of the pages; "": messages have no links.
	PublicURL string
	// ApprovalLink makes a signed link by which one approval is answered. Nil: there is none.
	ApprovalLink func(ctx context.Context, approvalID string) (string, error)
	Clock        pay.Clock // default: the machine's
	Logger       *slog.Logger
	Observer     Observer // nil: none
	// Jitter returns a number from 0 to 1. Default: a random one.
	Jitter func() float64
}

// Observer counts deliveries.
type Observer interface {
	// Delivered counts one try: "delivered", "failed" or "given-up".
	Delivered(destination, result string)
	// Waiting sets the number of notices behind a destination's cursor.
	Waiting(destination string, n uint64)
}

const (
	firstWait = 5 * time.Second
	maxWait   = 6 * time.Hour
	// giveUpAfter is the time after which a notice is given up whose destination fails.
	giveUpAfter = 24 * time.Hour
	// maxRefusals is the number of tries that a receiver may refuse before the notice is given up.
	maxRefusals = 5
	// pollEvery is the time between two looks into the outbox without a Wake.
	pollEvery = 2 * time.Second
	// pageSize is the number of notices that are read at once.
	pageSize = 100
	// graceTime bounds a delivery in flight when the sender stops.
	graceTime = time.Second
	// forgottenAfter is the time after which a destination that is not configured is forgotten.
	forgottenAfter = 30 * 24 * time.Hour
)

// Sender delivers notices. Each destination has its own queue, so that none waits for another.
type Sender struct {
	store    pay.Outbox
	queues   []*queue
	wants    func(pay.NoticeKind) bool
	signers  []*standardwebhooks.Webhook
	dialer   *guard.Dialer // of webhooks
	rules    guard.Rules
	client   *http.Client
	public   string
	approve  func(ctx context.Context, approvalID string) (string, error)
	now      pay.Clock
	log      *slog.Logger
	observer Observer
	jitter   func() float64
}

// queue holds how far one destination has got.
type queue struct {
	Destination
	wake chan struct{} // of one

	mu    sync.Mutex
	dirty bool // the store does not have state yet
	state pay.Delivery
}

// New makes a Sender. Two destinations of one name are one.
func New(o Options) *Sender {
	s := &Sender{
		store: o.Store, wants: o.Wants, signers: o.Signers, dialer: guard.NewDialer(guard.Options{Rules: o.Guard, Timeout: sendTime}),
		rules: o.Guard, public: o.PublicURL, approve: o.ApprovalLink, now: o.Clock, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), observer: o.Observer, jitter: o.Jitter,
	}
	s.client = newClient(s.dialer)
	if s.now == nil {
		s.now = failpoint.Now
	}
	if s.jitter == nil {
		s.jitter = rand.Float64
	}
	if s.observer == nil {
		s.observer = uncounted{}
	}
	if s.wants == nil {
		s.wants, _ = ParseKinds(nil)
	}
	for _, d := range o.Destinations {
		if s.find(d.Name) == nil {
			s.queues = append(s.queues, &queue{Destination: d, wake: make(chan struct{}, 1)})
		}
	}
	return s
}

type uncounted struct{}

func (uncounted) Delivered(string, string) {}
func (uncounted) Waiting(string, uint64)   {}

func (s *Sender) find(name string) *queue {
	for _, q := range s.queues {
		if q.Name == name {
			return q
		}
	}
	return nil
}

// Wake makes the sender look into the outbox now. It does not wait.
func (s *Sender) Wake() {
	for _, q := range s.queues {
		q.ring()
	}
}

func (q *queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default: // it will look
	}
}

// Prepare notes new destinations at the end of the outbox: they get what comes from now on. Call it before
// the first payment.
func (s *Sender) Prepare(ctx context.Context) error {
	kept, err := s.store.Deliveries(ctx)
	if err != nil {
		return fmt.Errorf("reading the destinations of notices: %w", err)
	}
	last, err := s.last(ctx)
	if err != nil {
		return err
	}
	for _, q := range s.queues {
		if _, one := s.found(ctx, q.Name, kept, last); !errors.Is(one, pay.ErrDeliveryChanged) { // else another node has noted it
			err = errors.Join(err, one)
		}
	}
	for _, d := range kept {
		if s.find(d.Destination) == nil && s.now().Sub(later(d.Delivered, d.Failed)) > forgottenAfter {
			err = errors.Join(err, s.store.ForgetDelivery(ctx, d.Destination))
		}
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// found returns what the store knows of a destination. It notes a new one at the end of the outbox.
func (s *Sender) found(ctx context.Context, name string, kept []pay.Delivery, last uint64) (pay.Delivery, error) {
	d := pay.Delivery{Destination: name}
	if i := slices.IndexFunc(kept, func(d pay.Delivery) bool { return d.Destination == name }); i >= 0 {
		// After the restore of a backup numbers are given again.
		if d = kept[i]; d.Cursor <= last {
			return d, nil
		}
	}
	d.Cursor = last
	if err := s.store.SetDelivery(ctx, d); err != nil {
		return d, fmt.Errorf("noting the destination %s: %w", name, err)
	}
	d.Version++
	return d, nil
}

// last returns the number of the newest notice.
func (s *Sender) last(ctx context.Context) (uint64, error) {
	list, err := s.store.Notices(ctx, pay.NoticeQuery{Limit: 1})
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return list[0].Number, nil
}

// Run delivers until ctx ends. A notice that is being sent then has graceTime left.
func (s *Sender) Run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	var all sync.WaitGroup
	defer all.Wait()
	for _, q := range s.queues {
		all.Go(func() { s.run(ctx, q) })
	}
}

func (s *Sender) run(ctx context.Context, q *queue) {
	tick := time.NewTicker(failpoint.Every(pollEvery))
	defer tick.Stop()
	for {
		for {
			more, err := s.step(ctx, q)
			if errors.Is(err, pay.ErrDeliveryChanged) {
				more, err = true, nil // go on from what another node or an operator has written
			}
			if err != nil && ctx.Err() == nil {
				s.log.Warn("notices not looked at", "destination", q.Name, "error", err)
			}
			if !more || err != nil || ctx.Err() != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-q.wake:
		}
	}
}

// step tries the next notice of a destination, if it is time. more: there may be another one to try.
func (s *Sender) step(ctx context.Context, q *queue) (more bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last, err := s.load(ctx, q)
	if err != nil {
		return false, err
	}
	s.observer.Waiting(q.Name, last-min(last, q.state.Cursor))
	now := s.now()
	// A clock that was put back must not hold up notices for longer than the longest wait.
	if q.state.Stopped || now.Before(q.state.Next) && q.state.Next.Sub(now) <= maxWait {
		return false, nil
	}
	page, err := s.store.NoticesAfter(ctx, q.state.Cursor, pageSize)
	if err != nil || len(page) == 0 {
		return false, err
	}
	if mine, err := s.store.ClaimDelivery(ctx, q.state); err != nil || !mine { // another node sends
		return false, err
	}
	passed := q.state.Cursor
	for _, n := range page {
		if s.wanted(n.Kind) {
			q.state.Cursor = passed
			return s.try(ctx, q, n)
		}
		passed = n.Number
	}
	q.state.Cursor = passed
	return true, s.keep(ctx, q)
}

// load writes what the store does not have yet of a queue, and reads the queue: other nodes and operators
// change it, too. It returns the number of the newest notice. The caller has the queue's lock.
func (s *Sender) load(ctx context.Context, q *queue) (last uint64, err error) {
	if q.dirty {
		if err := s.keep(ctx, q); err != nil && !errors.Is(err, pay.ErrDeliveryChanged) {
			return 0, err
		}
	}
	kept, err := s.store.Deliveries(ctx)
	if err != nil {
		return 0, err
	}
	if last, err = s.last(ctx); err != nil {
		return 0, err
	}
	q.state, err = s.found(ctx, q.Name, kept, last)
	return last, err
}

// wanted reports whether a kind is sent. That some were held back is told in any case.
func (s *Sender) wanted(k pay.NoticeKind) bool { return k == pay.NoticeHeldBack || s.wants(k) }

// keep writes the state of a queue, and so ends its claim. The caller has the queue's lock. A write that
// fails is tried again, so that this process does not send twice. If the state has changed in the store,
// that wins.
func (s *Sender) keep(ctx context.Context, q *queue) error {
	q.dirty = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
	defer cancel()
	err := s.store.SetDelivery(ctx, q.state)
	if q.dirty = err != nil && !errors.Is(err, pay.ErrDeliveryChanged); err != nil {
		return fmt.Errorf("noting what %s has got: %w", q.Name, err)
	}
	q.state.Version++
	return nil
}

// try delivers one notice and notes what became of it.
func (s *Sender) try(ctx context.Context, q *queue, n pay.Notice) (more bool, err error) {
	failpoint.Here(failpoint.NoticeSending)
	a := s.deliver(ctx, q.Destination, n)
	if ctx.Err() != nil && !a.ok {
		return false, s.keep(ctx, q) // it was cut off: that says nothing about the receiver
	}
	failpoint.Here(failpoint.NoticeSent)
	now := s.now().UTC()
	d := &q.state
	switch {
	case a.ok:
		d.Cursor, d.Tries, d.Refusals, d.First, d.Next, d.Delivered = n.Number, 0, 0, time.Time{}, time.Time{}, now
		s.observer.Delivered(q.Name, "delivered")
		return true, s.keep(ctx, q)
	case a.stop:
		d.Stopped = true
	}
	if d.Tries++; d.First.IsZero() {
		d.First = now
	}
	if a.refused {
		d.Refusals++
	}
	d.Failed, d.Error, d.Next = now, a.words, now.Add(s.wait(d.Tries, a.after))
	s.observer.Delivered(q.Name, "failed")
	level := slog.LevelWarn
	if d.Tries > 1 {
		level = slog.LevelDebug // the same fault again
	}
	s.log.Log(ctx, level, "notice not delivered", "destination", q.Name, "notice", n.Number, "kind", string(n.Kind), "tries", d.Tries, "answer", a.words)
	failing := now.Sub(d.First) >= giveUpAfter && now.Sub(n.At) >= giveUpAfter
	if !d.Stopped && (d.Refusals >= maxRefusals || failing) {
		d.Cursor, d.Refusals = n.Number, 0
		d.GivenUp++
		s.observer.Delivered(q.Name, "given-up")
		s.log.Error("notice given up", "destination", q.Name, "notice", n.Number, "kind", string(n.Kind), "tries", d.Tries, "answer", a.words)
	}
	return false, s.keep(ctx, q)
}

// wait returns the time until the next try, with a jitter of a fifth to both sides.
func (s *Sender) wait(tries int, asked time.Duration) time.Duration {
	d := min(firstWait<<min(tries-1, 20), maxWait)
	d = time.Duration(float64(d) * (0.8 + 0.4*s.jitter()))
	return max(min(d, maxWait), asked)
}

// deliver sends a notice once.
func (s *Sender) deliver(ctx context.Context, d Destination, n pay.Notice) answer {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
	defer cancel()
	var last *time.Timer
	var mu sync.Mutex
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		last = time.AfterFunc(graceTime, cancel)
	})
	defer func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if last != nil {
			last.Stop()
		}
	}()
	m := message{Notice: n, page: pageOf(s.public, n)}
	if n.ApprovalID != "" && n.Kind == pay.NoticeApproval && s.approve != nil {
		link, err := s.approve(within, n.ApprovalID)
		if err != nil {
			s.log.Warn("approval sent without a link", "approval", n.ApprovalID, "error", err)
		}
		m.approve = link
	}
	if d.mail != nil {
		return s.send(within, d, m)
	}
	return s.post(within, d, m)
}
