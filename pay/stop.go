package pay

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// The rules that refuse a payment because its key, or everything, is paused, or its host for its key.
const (
	RulePaused     = "paused"
	RuleHostPaused = "host-paused"
)

// MaxPausedHosts bounds the hosts that are paused for one key.
const MaxPausedHosts = 100

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
		return refusedBy(RulePaused, "%s is paused", what)
	}
	return refusedBy(RulePaused, "%s is paused: %s", what, p.Reason)
}

// Stop names a change of whether a key pays, or one of its secrets.
type Stop string

// The ways to stop a key. A revoked key stays revoked for ever.
const (
	StopPause  Stop = "pause"
	StopResume Stop = "resume"
	StopRevoke Stop = "revoke"
	// StopOverlap ends the overlap of a reissue: the earlier secret stops.
	StopOverlap Stop = "end-overlap"
)

// KeyStop pauses, resumes or revokes a key, or ends the overlap of its secrets.
type KeyStop struct {
	Do     Stop
	Host   string // that a pause or its end is about; "": the whole key
	At     time.Time
	Reason string // of a pause
	By     Actor
}

// Apply returns the key as the stop leaves it, and reports whether that is a change. What an
// operator paused, no account pauses anew or resumes. ErrKeyRevoked, ErrPausedByOperator, ErrManyPausedHosts.
func (s KeyStop) Apply(k Key) (Key, bool, error) {
	if s.Host != "" && s.Do != StopRevoke {
		return s.applyHost(k)
	}
	operators := k.Paused != nil && k.Paused.By.Kind == ActorOperator && s.By.Kind == ActorAccount
	switch {
	case s.Do == StopRevoke && k.Revoked():
		return k, false, nil
	case s.Do == StopRevoke:
		k.RevokedAt, k.Overlap = s.At, nil
	case k.Revoked():
		return k, false, ErrKeyRevoked
	case s.Do == StopOverlap && k.Overlap == nil:
		return k, false, nil
	case s.Do == StopOverlap:
		k.Overlap = nil
		return k, true, nil
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

// applyHost is Apply for a single host.
func (s KeyStop) applyHost(k Key) (Key, bool, error) {
	was, paused := k.PausedHosts[s.Host]
	operators := paused && was.By.Kind == ActorOperator && s.By.Kind != ActorOperator
	again := paused && s.By.Kind == ActorPurser // several payments under way find out at once
	hosts := maps.Clone(k.PausedHosts)          // the one of before may be in use
	switch {
	case k.Revoked():
		return k, false, ErrKeyRevoked
	case s.Do == StopResume && operators && s.By.Kind == ActorAccount:
		return k, false, ErrPausedByOperator
	case s.Do == StopResume && !paused, s.Do == StopPause && (operators || again):
		return k, false, nil
	case s.Do == StopResume:
		delete(hosts, s.Host)
	case !paused && len(hosts) >= MaxPausedHosts:
		return k, false, ErrManyPausedHosts
	case hosts == nil:
		hosts = map[string]Pause{}
		fallthrough
	default:
		hosts[s.Host] = Pause{At: s.At, Reason: s.Reason, By: s.By}
	}
	if len(hosts) == 0 {
		hosts = nil
	}
	k.PausedHosts = hosts
	k.PolicyRevision++
	return k, true, nil
}

// StopReader reads the pause of everything, and the deployment's keys.
type StopReader interface {
	// Pause returns the pause of everything, nil for none.
	Pause(ctx context.Context) (*Pause, error)
	// DeploymentKeys lists the ids of the deployment's own keys, the last one last; at most 100.
	DeploymentKeys(ctx context.Context) ([]string, error)
}

// Stops keeps pauses, and the deployment's own keys. Its writes are in the audit: see [WithActor].
type Stops interface {
	StopReader

	// StopKey applies a stop to a key: see [KeyStop.Apply], whose errors are returned as they
	// are. Begin sees the change at once. ErrKeyNotFound.
	StopKey(ctx context.Context, keyID string, s KeyStop) (Key, error)
	// SetPause pauses everything, or, with nil, ends that. Begin sees the change at once.
	SetPause(ctx context.Context, p *Pause) error
	// SetDeploymentKey puts an id at the end of DeploymentKeys.
	SetDeploymentKey(ctx context.Context, keyID string) error
}
