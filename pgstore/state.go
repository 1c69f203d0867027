package pgstore

import (
	"crypto/sha256"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// question names something that a decision asks the database.
type question struct {
	kind kind
	a, b string
}

type kind uint8

// The kinds of questions, with what a and b are.
const (
	askPayment       kind = iota // id
	askLiving                    // of a key: the idempotency key
	askAwaited                   // of a key: the identity
	askHost                      // of a key: the host
	askTransaction               // transactionKey
	askAttempts                  // key id, hash of the idempotency key
	askReconciled                // the beginning of the nonces
	askAuthorization             // payer, nonce
	askKey                       // key id
	askUse                       // wallet id, key id
	askPlan                      // organization id
	askCounter                   // counter
	askCounters                  // prefix of counters
	askPaid                      // of a key: the host
	askMark                      // mark
	askApproval                  // key id, purchase
	askPending                   // key id
	askKept                      // key id
	askSetting                   // name
	askDay                       // key id, day
	askEvent                     // id
	askSheet                     // lock
	askStore                     // ids of batches, 16 bytes each
	kinds
)

// errAsk: the state lacks an answer. What is missing is in state.missing.
var errAsk = errors.New("pgstore: not loaded yet")

// errLocks: the operation needs locks that the batch lacks. They are in state.unlocked. It has changed nothing.
var errLocks = errors.New("pgstore: not locked yet")

// state holds what a batch has read, as the operations before have left it. Operations ask, and change
// it; nothing but load and save talks to the database.
type state struct {
	*reads

	answered map[question]bool
	missing  map[question]bool
	// rehearsed: questions are noted and answered with nothing, or as this call expects it.
	rehearsed *pay.Begin

	payments map[string]*pay.Payment // nil: there is none
	// sets holds the ids of payments behind askLiving, askAwaited, askTransaction and askReconciled.
	sets map[question]map[string]bool
	// hosts holds the ends of validity, by id.
	hosts      map[question]map[string]uint64
	attempts   map[question]uint64
	keys       map[string]keyRead
	uses       map[question]use
	plans      map[string]pay.PlanName
	paid       map[question]bool
	dialed     map[question]bool // paid by a payment that is Dialed
	marks      map[string]pay.NoticeMark
	approvals  map[string]*pay.Approval
	purchases  map[question]map[string]bool
	pending    map[question]map[string]time.Time
	kept       map[string][]string // ids of all approvals of a key, oldest first
	settings   map[string][]byte
	days       map[question]*spendDay
	eventIDs   map[string]bool
	authorized map[question]bool
	careful    bool // ids of new rows are looked for
	// holds reports whether the batch has a lock. unlocked has those that an operation turned out to need.
	holds    func(name string) bool
	unlocked []string
	// sheets holds the sheets and counters that were read, by lock.
	sheets map[string]*sheet
	// lastLock is the lock of the key that was asked for last.
	lastKey, lastLock string

	// Rows that must be written.
	wrote    map[string]bool // payments; true: new
	order    []string        // of those
	events   []*pay.SpendEvent
	drawn    map[drawnDay]*pay.WalletDay // is added to what the database has
	setMarks map[string]bool
	asked    map[string]bool // approvals; true: new
	dropped  []string        // approvals
	notices  []pay.Notice
	audit    []*pay.AuditEntry
	// wroteSettings: that of a reconciliation.
	wroteSettings bool
	applied       []uuid.UUID // kept outcomes

	// storeID is the id of the store that the batch has found, and batches counts those that askStore has found.
	storeID string
	batches int
}

// keyRead holds what a decision reads of a key.
type keyRead struct{ revision uint64 }

// use tells who may use a wallet.
type use struct {
	owner string // "": it is deleted or unknown
	lent  bool
}

// newState returns the state of a batch of about n operations.
func newState(r *reads, n int) *state {
	return &state{
		reads:    r,
		answered: make(map[question]bool, 4*n), missing: make(map[question]bool, 3*n),
		payments: make(map[string]*pay.Payment, n), wrote: make(map[string]bool, n),
		sheets: make(map[string]*sheet, n), authorized: make(map[question]bool, n),
		sets: make(map[question]map[string]bool, n), hosts: map[question]map[string]uint64{},
		attempts: map[question]uint64{}, keys: map[string]keyRead{}, uses: map[question]use{}, plans: map[string]pay.PlanName{},
		paid: map[question]bool{}, dialed: map[question]bool{}, marks: map[string]pay.NoticeMark{}, setMarks: map[string]bool{},
		approvals: map[string]*pay.Approval{}, purchases: map[question]map[string]bool{}, pending: map[question]map[string]time.Time{},
		kept: map[string][]string{}, asked: map[string]bool{}, settings: map[string][]byte{},
		days: map[question]*spendDay{}, eventIDs: map[string]bool{}, drawn: map[drawnDay]*pay.WalletDay{},
	}
}

// want asks questions for the next load.
func (s *state) want(list ...question) {
	for _, q := range list {
		if !s.answered[q] {
			s.missing[q] = true
		}
	}
}

// ask fails with errAsk until the question is answered.
func (s *state) ask(kind kind, a, b string) (question, error) {
	q := question{kind, a, b}
	if s.answered[q] {
		return q, nil
	}
	s.missing[q] = true
	if s.rehearsed != nil {
		return q, nil
	}
	return q, errAsk
}

// hashed bounds the length of what is searched for.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// ofKey asks for a hash within a key. One hash of both is searched for.
func ofKey(k kind, keyID, hash string) question { return question{k, withKey(keyID, hash), ""} }

// withKey hashes a key's id and a hash.
func withKey(keyID, hash string) string {
	var room [128]byte
	sum := sha256.Sum256(append(append(room[:0], keyID...), hash...))
	return string(sum[:])
}

// searches returns the questions whose answers have a payment.
func searches(p *pay.Payment) (list []question) {
	if p == nil {
		return nil
	}
	if p.Awaited() && !p.Retired {
		list = append(list, ofKey(askAwaited, p.KeyID, string(p.Identity[:])))
	}
	if keyID, name, ok := p.LivesUnder(); ok {
		list = append(list, ofKey(askLiving, keyID, hashed(name)))
	}
	if p.Transaction != "" {
		list = append(list, question{askTransaction, transactionKey(p.Transaction), ""})
	}
	return list
}

// transactionKey returns the form in which the hash of a transaction is searched for: 32 bytes, or text
// that is no hash in lower case.
func transactionKey(hash string) string {
	if n, err := x402.ParseNonce(hash); err == nil {
		return string(n[:])
	}
	return strings.ToLower(hash)
}

// save replaces a payment, whose searches follow.
func (s *state) save(p *pay.Payment, fresh bool) {
	was := s.payments[p.ID]
	for _, q := range searches(was) {
		delete(s.sets[q], p.ID)
	}
	s.payments[p.ID], s.answered[question{askPayment, p.ID, ""}] = p, true
	s.authorized[question{askAuthorization, string(p.Authorization.From.Bytes()), string(p.Authorization.Nonce[:])}] = true
	s.overlay(p)
	if new, known := s.wrote[p.ID]; !known {
		s.order = append(s.order, p.ID)
		s.wrote[p.ID] = fresh
	} else {
		s.wrote[p.ID] = new || fresh
	}
}

// overlay adds a payment to the answers that have it, and takes it out of the others.
func (s *state) overlay(p *pay.Payment) {
	for _, q := range searches(p) {
		if set := s.sets[q]; set != nil {
			set[p.ID] = true
		}
	}
	host := ofKey(askHost, p.KeyID, hashed(p.Host))
	if set := s.hosts[host]; set != nil {
		if delete(set, p.ID); p.HoldsHost() {
			set[p.ID] = p.Authorization.ValidBefore
		}
	}
	if p.Attempt > 0 {
		q := question{askAttempts, p.KeyID, hashed(p.IdempotencyKey)}
		if n, ok := s.attempts[q]; ok {
			s.attempts[q] = max(n, p.Attempt)
		}
	}
}

// payment returns a row, which the caller must not change: pay.ErrPaymentNotFound.
func (s *state) payment(id string) (*pay.Payment, error) {
	if _, err := s.ask(askPayment, id, ""); err != nil {
		return nil, err
	}
	if p := s.payments[id]; p != nil {
		return p, nil
	}
	return nil, pay.ErrPaymentNotFound
}

// nanoseconds returns a time as columns have it. Times out of range become the first or last one.
func nanoseconds(t time.Time) int64 {
	switch year := t.Year(); {
	case year < 1970:
		return 0
	case year > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// answer marks what a load has read.
func (s *state) answer(list map[question]bool) {
	for q := range list {
		s.answered[q] = true
	}
	// What the batch has changed counts more than what was read.
	for _, id := range s.order {
		p := s.payments[id]
		for q := range list {
			if set := s.sets[q]; set != nil {
				delete(set, id)
			}
		}
		s.overlay(p)
	}
	for _, e := range s.events {
		if q := ofKey(askPaid, e.KeyID, hashed(e.Host)); e.Host != "" && list[q] {
			s.pays(q, s.payments[e.PaymentID])
		}
	}
	for id, a := range s.approvals {
		if _, wrote := s.asked[id]; wrote && a != nil {
			s.overlayApproval(*a)
		}
	}
	clear(s.missing)
}

// pays notes that a payment has paid a host.
func (s *state) pays(q question, p *pay.Payment) {
	s.paid[q], s.dialed[q] = true, s.dialed[q] || p != nil && p.Dialed()
}

// sortedIDs returns the ids of a set, oldest first.
func sortedIDs[T any](set map[string]T) []string { return slices.Sorted(maps.Keys(set)) }
