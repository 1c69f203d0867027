package books

import (
	"context"
	"fmt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// StopKey pauses, resumes or revokes a key, or pauses or resumes one host for it. A paused key still gets answers of
// earlier payments. The time, and the actor of the context, are filled in. *InputError, ErrKeyNotFound, ErrKeyRevoked,
// ErrPausedByOperator, ErrManyPausedHosts.
func (b *Books) StopKey(ctx context.Context, keyID string, s pay.KeyStop) (pay.Key, error) {
	if err := pay.CheckReason(s.Reason, false); err != nil {
		return pay.Key{}, err
	}
	if s.Host != "" {
		site := policy.SiteOf("https://" + s.Host).String()
		if site == "" || len(site) > policy.MaxHost+len(":65535") {
			return pay.Key{}, &pay.InputError{Field: "host", Reason: "a host such as api.example.com, with its port if that is not the scheme's own"}
		}
		s.Host = site
	}
	s.At = b.now().UTC()
	s.By, _ = pay.ActorOf(ctx)
	k, err := b.store.StopKey(ctx, keyID, s)
	if err == nil {
		b.log.Warn("API key: "+string(s.Do), "key", k.ID, "host", s.Host, "by", s.By.String(), "reason", s.Reason)
	}
	return k, err
}

// PauseAll stops new payments of all keys, and replaces an earlier pause. *InputError.
func (b *Books) PauseAll(ctx context.Context, reason string) (*pay.Pause, error) {
	if err := pay.CheckReason(reason, true); err != nil {
		return nil, err
	}
	by, _ := pay.ActorOf(ctx)
	pause := &pay.Pause{At: b.now().UTC(), Reason: reason, By: by}
	if err := b.store.SetPause(ctx, pause); err != nil {
		return nil, err
	}
	b.log.Warn("everything is paused", "by", by.String(), "reason", reason)
	return pause, nil
}

// ResumeAll ends the pause of all keys. Keys that were paused one by one stay paused.
func (b *Books) ResumeAll(ctx context.Context) error {
	if err := b.store.SetPause(ctx, nil); err != nil {
		return err
	}
	by, _ := pay.ActorOf(ctx)
	b.log.Warn("everything is resumed", "by", by.String())
	return nil
}

// Paused returns the pause of all keys; nil: there is none.
func (b *Books) Paused(ctx context.Context) (*pay.Pause, error) { return b.reader.Pause(ctx) }

// Deploy records a key as the deployment's own.
func (b *Books) Deploy(ctx context.Context, k pay.Key) error {
	return b.store.SetDeploymentKey(ctx, k.ID)
}

// Replaced lists the deployment's earlier keys that are not revoked. Programs that still hold one of
// them can pay.
func (b *Books) Replaced(ctx context.Context) ([]pay.Key, error) {
	ids, err := b.reader.DeploymentKeys(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var keys []pay.Key
	for _, id := range ids[:len(ids)-1] {
		k, err := b.reader.Key(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("key %s, which was the deployment's: %w", id, err)
		}
		if !k.Revoked() {
			keys = append(keys, k)
		}
	}
	return keys, nil
}
