package pay

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// RulePaused is the rule of a payment that is refused because its key, or everything, is paused.
const RulePaused = "paused"

// Pause tells since when, why and by whose word no new payment is made.
type Pause struct {
	At     time.Time `json:"At"`
	Reason string    `json:"Reason,omitempty"` // 0 to 500 characters
	By     Actor     `json:"By"`
}

// refusal refuses a new payment while what is paused: nil for no pause.
func (p *Pause) refusal(what string) error {
	switch {
	case p == nil:
		return nil
	case p.Reason == "":
		return refusal(RulePaused, "%s is paused", what)
	}
	return refusal(RulePaused, "%s is paused: %s", what, p.Reason)
}

// Stop is a change of whether a key pays.
type Stop string

// The ways to stop a key. A revoked key stays revoked for ever.
const (
	StopPause  Stop = "pause"
	StopResume Stop = "resume"
	StopRevoke Stop = "revoke"
)

// KeyStop pauses, resumes or revokes a key.
type KeyStop struct {
	Do     Stop
	At     time.Time
	Reason string // of a pause
	By     Actor
}

// Apply returns the key as the stop leaves it, and reports whether that is a change. What an
// operator paused, no account pauses anew or resumes. ErrKeyRevoked, ErrPausedByOperator.
func (s KeyStop) Apply(k Key) (Key, bool, error) {
	operators := k.Paused != nil && k.Paused.By.Kind == ActorOperator && s.By.Kind == ActorAccount
	switch {
	case s.Do == StopRevoke && k.Revoked():
		return k, false, nil
	case s.Do == StopRevoke:
		k.RevokedAt = s.At
	case k.Revoked():
		return k, false, ErrKeyRevoked
	case s.Do == StopResume && operators:
		return k, false, ErrPausedByOperator
	case s.Do == StopResume && k.Paused == nil, s.Do == StopPause && operators:
		return k, false, nil
	case s.Do == StopResume:
		k.Paused = nil
	case s.Do == StopPause:
		k.Paused = &Pause{At: s.At, Reason: s.Reason, By: s.By}
	default:
		return k, false, fmt.Errorf("key %s cannot be %q", k.ID, s.Do)
	}
	k.PolicyRevision++
	return k, true, nil
}

// Stops keeps what is paused and which keys have been the deployment's own. What it writes has
// its entry in the audit: see [WithActor].
type Stops interface {
	// StopKey applies a stop to a key: see [KeyStop.Apply], whose errors are returned as they
	// are. Begin sees the change at once. ErrKeyNotFound.
	StopKey(ctx context.Context, keyID string, s KeyStop) (Key, error)
	// Pause says that everything is paused; nil: it is not.
	Pause(ctx context.Context) (*Pause, error)
	// SetPause pauses everything, or, with nil, ends that. Begin sees the change at once.
	SetPause(ctx context.Context, p *Pause) error
	// DeploymentKeys lists the ids of keys that were the deployment's own (PURSER_KEY), each
	// once, the last one last; at most 100.
	DeploymentKeys(ctx context.Context) ([]string, error)
	// SetDeploymentKey puts an id at the end of DeploymentKeys.
	SetDeploymentKey(ctx context.Context, keyID string) error
}

// StopKey pauses, resumes or revokes a key. No payment is journaled afterwards that the key may
// not make any more; repeats of what has left are served until the key is revoked.
// *InputError, ErrKeyNotFound, ErrKeyRevoked, ErrPausedByOperator.
func (p *Payer) StopKey(ctx context.Context, keyID string, do Stop, reason string) (Key, error) {
	if err := validReason(reason); err != nil {
		return Key{}, err
	}
	by, _ := ActorOf(ctx)
	k, err := p.store.StopKey(ctx, keyID, KeyStop{Do: do, At: p.now().UTC(), Reason: reason, By: by})
	if err == nil {
		p.log.Warn("API key: "+string(do), "key", k.ID, "by", by.String(), "reason", reason)
	}
	return k, err
}

// PauseAll stops new payments of all keys, and replaces an earlier pause. *InputError.
func (p *Payer) PauseAll(ctx context.Context, reason string) (*Pause, error) {
	if strings.TrimSpace(reason) == "" {
		return nil, &InputError{Field: "reason", Reason: reasonBounds}
	}
	if err := validReason(reason); err != nil {
		return nil, err
	}
	by, _ := ActorOf(ctx)
	pause := &Pause{At: p.now().UTC(), Reason: reason, By: by}
	if err := p.store.SetPause(ctx, pause); err != nil {
		return nil, err
	}
	p.log.Warn("everything is paused", "by", by.String(), "reason", reason)
	return pause, nil
}

// ResumeAll ends what PauseAll began. Keys that were paused themselves stay so.
func (p *Payer) ResumeAll(ctx context.Context) error {
	if err := p.store.SetPause(ctx, nil); err != nil {
		return err
	}
	by, _ := ActorOf(ctx)
	p.log.Warn("everything is resumed", "by", by.String())
	return nil
}

// Paused says that everything is paused; nil: it is not.
func (p *Payer) Paused(ctx context.Context) (*Pause, error) { return p.store.Pause(ctx) }

// Deploy records that a key is the deployment's own.
func (p *Payer) Deploy(ctx context.Context, k Key) error { return p.store.SetDeploymentKey(ctx, k.ID) }

// Replaced lists the keys that were the deployment's own before the one that is now, and are
// not revoked. Programs that still hold one of them can pay.
func (p *Payer) Replaced(ctx context.Context) ([]Key, error) {
	ids, err := p.store.DeploymentKeys(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var keys []Key
	for _, id := range ids[:len(ids)-1] {
		k, err := p.store.Key(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("key %s, which was the deployment's: %w", id, err)
		}
		if !k.Revoked() {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

var reasonBounds = fmt.Sprintf("1 to %d characters on one line", maxReason)

// validReason says what is wrong with a reason that may be missing: *InputError.
func validReason(reason string) error {
	if !utf8.ValidString(reason) || utf8.RuneCountInString(reason) > maxReason || strings.IndexFunc(reason, func(c rune) bool { return c < ' ' || c == 0x7f }) >= 0 {
		return &InputError{Field: "reason", Reason: reasonBounds}
	}
	return nil
}
