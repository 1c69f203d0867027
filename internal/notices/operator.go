package notices

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
)

// This file has what operators see of the destinations, and do to them.

// State tells how a destination is.
type State struct {
	Name      string     `json:"name"`
	Format    Format     `json:"format"`
	Signed    bool       `json:"signed"`
	Stopped   bool       `json:"stopped,omitempty"` // the receiver answered 410
	Cursor    uint64     `json:"cursor"`            // number of the last notice that is done with
	Waiting   uint64     `json:"waiting"`           // notices behind it, those of kinds that are not sent included
	Tries     int        `json:"tries,omitempty"`   // failed ones in a row
	GivenUp   uint64     `json:"given_up,omitempty"`
	Delivered *time.Time `json:"delivered_at,omitempty"`
	Failed    *time.Time `json:"failed_at,omitempty"`
	Next      *time.Time `json:"next_try_at,omitempty"`
	Error     string     `json:"error,omitempty"` // of the last try that failed
}

// Failing reports whether the last try failed, or no more are made.
func (s State) Failing() bool { return s.Stopped || s.Tries > 0 }

// States tells how all destinations are.
func (s *Sender) States(ctx context.Context) ([]State, error) {
	last, err := s.last(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := s.store.Deliveries(ctx)
	if err != nil {
		return nil, err
	}
	list := []State{}
	for _, q := range s.queues {
		d := pay.Delivery{Destination: q.Name, Cursor: last}
		for _, k := range kept {
			if k.Destination == q.Name {
				d = k
			}
		}
		list = append(list, State{
			Name: q.Name, Format: q.Format, Signed: len(s.signers) > 0 && q.mail == nil, Stopped: d.Stopped, Cursor: d.Cursor, Waiting: last - min(last, d.Cursor),
			Tries: d.Tries, GivenUp: d.GivenUp, Delivered: moment(d.Delivered), Failed: moment(d.Failed), Next: moment(d.Next), Error: d.Error,
		})
	}
	return list, nil
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// ErrNoDestination: no destination has this name.
var ErrNoDestination = errors.New("no destination of notices has this name; purser webhooks lists them")

// chosen finds destinations by name or its beginning; "": all.
func (s *Sender) chosen(name string) (list []*queue, err error) {
	for _, q := range s.queues {
		if q.Name == name {
			return []*queue{q}, nil
		}
		if strings.HasPrefix(q.Name, name) {
			list = append(list, q)
		}
	}
	if len(list) == 0 || name != "" && len(list) > 1 {
		return nil, fmt.Errorf("%w: %q", ErrNoDestination, name)
	}
	return list, nil
}

// Tested tells what a receiver said to a test notice.
type Tested struct {
	Name    string  `json:"name"`
	OK      bool    `json:"ok"`
	Status  int     `json:"status,omitempty"` // of HTTP or SMTP; none: no answer came
	Answer  string  `json:"answer"`
	Seconds float64 `json:"seconds"`
}

// Test sends a test notice now, to one destination or, without a name, to all. A destination that had
// stopped goes on if it takes the test.
func (s *Sender) Test(ctx context.Context, name string) ([]Tested, error) {
	chosen, err := s.chosen(name)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("naming a notice: %w", err)
	}
	n := pay.Notice{
		ID: id.String(), At: s.now().UTC(), Kind: pay.NoticeTest, Title: "This is a test",
		Text: "purser can reach you here. You will be told of budgets, approvals, disputes and what else you have chosen.",
	}
	list := []Tested{}
	for _, q := range chosen {
		begun := time.Now()
		a := s.deliver(ctx, q.Destination, n)
		list = append(list, Tested{q.Name, a.ok, a.status, a.words, time.Since(begun).Round(time.Millisecond).Seconds()})
		if err := s.goOn(ctx, q, a); err != nil {
			return list, err
		}
	}
	return list, nil
}

// goOn ends the wait of a destination that has taken a test.
func (s *Sender) goOn(ctx context.Context, q *queue, a answer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !a.ok {
		return nil
	}
	if _, err := s.load(ctx, q); err != nil || !q.state.Stopped && q.state.Tries == 0 {
		return err
	}
	if mine, err := s.store.ClaimDelivery(ctx, q.state); err != nil || !mine { // another node tries at this moment
		return err
	}
	q.state.Stopped, q.state.Next = false, time.Time{}
	q.ring()
	return s.keep(ctx, q)
}

// Replay says from where notices are sent again.
type Replay struct {
	From  uint64    // number of the first notice; 0: by Since
	Since time.Time // the time of the first notice
}

// Replay sends notices again, under their ids, from a number or time on. It returns the number of
// notices that a destination then has to get.
func (s *Sender) Replay(ctx context.Context, name string, r Replay) (waiting uint64, err error) {
	chosen, err := s.chosen(name)
	if err != nil {
		return 0, err
	}
	if len(chosen) != 1 || name == "" {
		return 0, fmt.Errorf("%w: %q", ErrNoDestination, name)
	}
	q := chosen[0]
	before := max(r.From, 1) - 1
	if r.From == 0 {
		if before, err = s.lastBefore(ctx, r.Since); err != nil {
			return 0, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		last, err := s.load(ctx, q)
		if err != nil {
			return 0, err
		}
		q.state.Cursor = min(before, last)
		q.state.Stopped, q.state.Refusals, q.state.First, q.state.Next = false, 0, time.Time{}, time.Time{}
		if err = s.keep(ctx, q); !errors.Is(err, pay.ErrDeliveryChanged) {
			q.ring()
			return last - q.state.Cursor, err
		}
	}
}

// lastBefore returns the number of the last notice before a time.
func (s *Sender) lastBefore(ctx context.Context, at time.Time) (uint64, error) {
	for q := (pay.NoticeQuery{Limit: 500}); ; {
		page, err := s.store.Notices(ctx, q)
		if err != nil {
			return 0, err
		}
		for _, n := range page {
			if n.At.Before(at) {
				return n.Number, nil
			}
			q.Before = n.Number
		}
		if len(page) < q.Limit {
			return q.Before - min(q.Before, 1), nil
		}
	}
}

// Failing names the destinations that do not take notices, with the last answer of each.
func (s *Sender) Failing(ctx context.Context) (list []string) {
	states, err := s.States(ctx)
	if err != nil {
		return []string{"the outbox cannot be read: " + err.Error()}
	}
	for _, one := range states {
		if one.Failing() {
			list = append(list, one.Name+": "+one.Error)
		}
	}
	return list
}
