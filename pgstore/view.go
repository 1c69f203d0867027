package pgstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// view reads a state for pay.Begin.Decide.
type view struct {
	*state
	derive func(purpose string, parts ...string) [32]byte
}

// askOf asks for a hash within a key.
func (v view) askOf(k kind, keyID, hash string) (question, error) {
	q := ofKey(k, keyID, hash)
	return v.ask(q.kind, q.a, q.b)
}

func (v view) ByIdempotencyKey(keyID, idempotencyKey string) (*pay.Payment, error) {
	q, err := v.askOf(askLiving, keyID, hashed(idempotencyKey))
	if err != nil {
		return nil, err
	}
	ids := sortedIDs(v.sets[q])
	if len(ids) == 0 {
		return nil, nil
	}
	return v.payment(ids[len(ids)-1])
}

func (v view) VisitAwaited(keyID string, identity pay.Hash, now time.Time, visit func(id string) (bool, error)) error {
	q, err := v.askOf(askAwaited, keyID, string(identity[:]))
	if err != nil {
		return err
	}
	var list []*pay.Payment
	for _, id := range sortedIDs(v.sets[q]) {
		p, err := v.payment(id)
		if err != nil {
			return err
		}
		if p.AwaitedUntil().After(now) {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b *pay.Payment) int { return a.AwaitedUntil().Compare(b.AwaitedUntil()) })
	for _, p := range list {
		if more, err := visit(p.ID); err != nil || !more {
			return err
		}
	}
	return nil
}

func (v view) Payment(id string) (*pay.Payment, error) { return v.payment(id) }

func (v view) CountUnanswered(keyID, host string, now time.Time, _ int) (n int, err error) {
	q, err := v.askOf(askHost, keyID, hashed(host))
	if err != nil {
		return 0, err
	}
	for _, until := range v.hosts[q] {
		if until > uint64(max(0, now.Unix())) {
			n++
		}
	}
	return n, nil
}

// settingIn decodes a setting; nil: there is none.
func settingIn[T any](s *state, name string) (*T, error) {
	if _, err := s.ask(askSetting, name, ""); err != nil {
		return nil, err
	}
	return decodeSetting[T](name, s.settings[name])
}

func decodeSetting[T any](name string, text []byte) (*T, error) {
	if text == nil {
		return nil, nil
	}
	value := new(T)
	if err := json.Unmarshal(text, value); err != nil {
		return nil, fmt.Errorf("setting %s: %w", name, err)
	}
	return value, nil
}

func (v view) Pause() (*pay.Pause, error) { return settingIn[pay.Pause](v.state, settingPause) }

func (v view) Restored() (*pay.Restore, error) {
	return settingIn[pay.Restore](v.state, settingRestored)
}

func (v view) PolicyRevision(keyID string) (uint64, error) {
	if _, err := v.ask(askKey, keyID, ""); err != nil {
		return 0, err
	}
	if v.rehearsed != nil {
		if parent := v.rehearsed.Parent; parent != nil && parent.KeyID == keyID {
			return parent.PolicyRevision, nil
		}
		return v.rehearsed.PolicyRevision, nil
	}
	return v.keys[keyID].revision, nil
}

func (v view) MayUse(keyID, owner, walletID string) (bool, error) {
	q, err := v.ask(askUse, walletID, keyID)
	if err != nil {
		return false, err
	}
	u := v.uses[q]
	return v.rehearsed != nil || u.owner == owner && owner != "" && (owner == keyID || u.lent), nil
}

func (v view) Plan(orgID string) (pay.PlanName, error) {
	if _, err := v.ask(askPlan, orgID, ""); err != nil {
		return "", err
	}
	if v.rehearsed != nil {
		return v.rehearsed.Plan, nil
	}
	return v.plans[orgID], nil
}

func (v view) Counter(c pay.Counter) (money.Amount, error) { return v.counter(c) }

func (v view) VisitCounters(prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
	key, complete := prefix.Key()
	if !complete {
		return fmt.Errorf("counters %s: several locks guard them", prefix)
	}
	if err := v.needs(keyLock(key)); err != nil {
		return err
	}
	_, sheetErr := v.ask(askSheet, keyLock(key), "")
	_, err := v.ask(askCounters, string(prefix), "")
	if err := errors.Join(sheetErr, err); err != nil {
		return err
	}
	var list []codec.CounterValue
	if sh := v.sheets[keyLock(key)]; sh != nil {
		sh.each(func(v codec.CounterValue) {
			if strings.HasPrefix(string(v.Counter), string(prefix)) && !v.Amount.IsZero() {
				list = append(list, v)
			}
		})
	}
	slices.SortFunc(list, codec.ByName)
	for _, c := range list {
		if !visit(c.Counter, c.Amount) {
			return nil
		}
	}
	return nil
}

func (v view) Paid(keyID, host string, dialed bool) (bool, error) {
	q, err := v.askOf(askPaid, keyID, hashed(host))
	return v.paid[q] && !dialed || v.dialed[q], err
}

func (v view) Mark(name string) (pay.NoticeMark, error) {
	_, err := v.ask(askMark, name, "")
	return v.marks[name], err
}

func (v view) Attempts(keyID, idempotencyKey string) (uint64, error) {
	q, err := v.ask(askAttempts, keyID, hashed(idempotencyKey))
	return v.attempts[q], err
}

func (v view) nonces(keyID, idempotencyKey string) codec.Nonces {
	return codec.NoncesOf(v.derive, keyID, idempotencyKey)
}

func (v view) Nonce(keyID, idempotencyKey string, attempt uint64) x402.Nonce {
	return v.nonces(keyID, idempotencyKey).Nonce(attempt)
}

func (v view) Reconciled(keyID, idempotencyKey string) (found *pay.Payment, attempt uint64, err error) {
	nonces := v.nonces(keyID, idempotencyKey)
	q, err := v.ask(askReconciled, string(nonces.Prefix()), "")
	if err != nil {
		return nil, 0, err
	}
	for _, id := range sortedIDs(v.sets[q]) {
		p, err := v.payment(id)
		if err != nil {
			return nil, 0, err
		}
		if n, ok := nonces.Attempt(p.Authorization.Nonce); ok && n > attempt {
			found, attempt = p, n
		}
	}
	return found, attempt, nil
}

func (v view) Approval(keyID string, purchase pay.Hash) (*pay.Approval, error) {
	q, err := v.ask(askApproval, keyID, string(purchase[:]))
	if err != nil {
		return nil, err
	}
	ids := sortedIDs(v.purchases[q])
	if len(ids) == 0 {
		return nil, nil
	}
	a := *v.approvals[ids[len(ids)-1]]
	return &a, nil
}

func (v view) CountPendingApprovals(keyID string, now time.Time, _ int) (n int, err error) {
	q, err := v.ask(askPending, keyID, "")
	if err != nil {
		return 0, err
	}
	for _, end := range v.pending[q] {
		if end.After(now) {
			n++
		}
	}
	return n, nil
}
