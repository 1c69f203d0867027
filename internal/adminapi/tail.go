package adminapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// tailWait bounds a question for the next events. A reload waits 10 s for the admin endpoint's requests.
const tailWait = 5 * time.Second

// TailLabels lists the states that events can have.
var TailLabels = []string{string(pay.Open), string(pay.Settled), string(pay.Void), "refused", "unresolved", "confirmed", "disputed", "undelivered", feed.Declined}

// TailEvent tells of a change of a payment, or of a request that was not paid.
type TailEvent struct {
	Number   uint64      `json:"number"`
	At       time.Time   `json:"at"`
	State    string      `json:"state"` // a state or flag of the payment, or "declined"
	KeyID    string      `json:"key_id"`
	KeyLabel string      `json:"key_label,omitempty"`
	Door     policy.Door `json:"door"`
	Task     string      `json:"task"`
	Host     string      `json:"host"`
	// Amount is in the smallest unit of Currency; nil where it is not known.
	Amount      *string `json:"amount"`
	Currency    string  `json:"currency"`
	Payment     string  `json:"payment,omitempty"` // its id
	Protocol    string  `json:"protocol,omitempty"`
	Rail        string  `json:"rail,omitempty"`
	Transaction string  `json:"transaction,omitempty"`
	Reason      string  `json:"reason,omitempty"` // of a decline, a word
	Detail      string  `json:"detail,omitempty"` // of a decline, for people
}

// Tail answers GET /purser/tail.
type Tail struct {
	Feed   string      `json:"feed"` // another one is that of another process
	Events []TailEvent `json:"events"`
	Next   uint64      `json:"next"`             // to be asked with after
	Missed uint64      `json:"missed,omitempty"` // events that came and went since the last question
	Ended  bool        `json:"ended,omitempty"`  // purser stops
}

// tailQuery is a question for events.
type tailQuery struct {
	key, task, host string // "": any
	states          []string
	after           uint64
	now             bool // the answer is where the feed is
}

// tail waits some seconds for the events behind a number, and tells them:
// GET /purser/tail?feed=&after=&key=&task=&host=&state=. Without after it tells where the feed is.
func (h *Handler) tail(w http.ResponseWriter, r *http.Request) error {
	var q tailQuery
	err := h.enter(func(p *Purser) (err error) {
		q, err = p.tailQuery(r)
		return err
	})
	if err != nil {
		return err
	}
	p, err := h.purser()
	if err != nil {
		return err
	}
	answer := Tail{Feed: p.Feed.ID(), Events: []TailEvent{}, Next: q.after}
	if q.now {
		answer.Next = p.Feed.Last()
		return writeBody(w, http.StatusOK, answer)
	}
	ctx, cancel := context.WithTimeout(r.Context(), tailWait)
	defer cancel()
	for len(answer.Events) == 0 && !answer.Ended && ctx.Err() == nil {
		page := p.Feed.After(ctx, answer.Next)
		answer.Missed, answer.Ended = answer.Missed+page.Missed, page.Ended
		for _, e := range page.Events {
			answer.Next = e.Number
			if q.wants(e) {
				answer.Events = append(answer.Events, shownEvent(e))
			}
		}
	}
	// No request of the configuration waits meanwhile: a reload ends it.
	_ = h.enter(func(p *Purser) error {
		return nameKeys(p, r.Context(), answer.Events, func(e *TailEvent) (string, *string) { return e.KeyID, &e.KeyLabel })
	})
	return writeBody(w, http.StatusOK, answer)
}

// enter runs f as a request of the configuration that serves.
func (h *Handler) enter(f func(*Purser) error) error {
	p, err := h.purser()
	if err != nil {
		return err
	}
	if err := p.Enter(); err != nil {
		return Errorf(http.StatusServiceUnavailable, "%w", err)
	}
	defer p.Leave()
	if err := f(p); err != nil {
		return failure(err)
	}
	return nil
}

func (p *Purser) tailQuery(r *http.Request) (q tailQuery, err error) {
	asked := r.URL.Query()
	if q.task = asked.Get("task"); asked.Get("host") != "" {
		q.host = pay.RecordedHost(asked.Get("host"))
	}
	if text := asked.Get("state"); text != "" {
		q.states = strings.Split(text, ",")
	}
	for _, state := range q.states {
		if !slices.Contains(TailLabels, state) {
			return q, Errorf(http.StatusBadRequest, "state: some of %s", strings.Join(TailLabels, ", "))
		}
	}
	if name := asked.Get("key"); name != "" {
		k, err := p.find(r.Context(), name)
		if err != nil {
			return q, err
		}
		q.key = k.ID
	}
	if q.now = !asked.Has("after"); q.now || asked.Has("feed") && asked.Get("feed") != p.Feed.ID() {
		return q, nil
	}
	if q.after, err = strconv.ParseUint(asked.Get("after"), 10, 64); err != nil {
		return q, Errorf(http.StatusBadRequest, "after: the number of an event")
	}
	return q, nil
}

func (q tailQuery) wants(e feed.Event) bool {
	return (q.key == "" || q.key == e.KeyID) && (q.task == "" || q.task == e.Task) && (q.host == "" || q.host == e.Host) &&
		(len(q.states) == 0 || slices.Contains(q.states, e.State))
}

func shownEvent(e feed.Event) TailEvent {
	shown := TailEvent{
		Number: e.Number, At: e.At, State: e.State, KeyID: e.KeyID, Door: e.Door, Task: e.Task, Host: e.Host, Currency: "USDC",
		Payment: e.Payment, Protocol: e.Means.Protocol, Rail: e.Means.Rail, Transaction: e.Transaction, Reason: e.Reason, Detail: e.Detail,
	}
	if e.Amount != nil {
		shown.Amount = new(e.Amount.String())
	}
	return shown
}
