package pay

import (
	"bytes"
	"time"
)

// MinOverlap and MaxOverlap bound the time for which the earlier secret of a key goes on.
const (
	MinOverlap = time.Minute
	MaxOverlap = 30 * 24 * time.Hour
)

// Reissue gives a key another secret. Wallets, limits, history and organization stay.
type Reissue struct {
	KeyID  string
	Secret string // the new one
	At     time.Time
	// Overlap holds for how long the earlier secret works beside the new one; 0: it stops at once.
	Overlap time.Duration
}

// Overlap holds the secret that a key had before its present one. Until its end, both work.
type Overlap struct {
	Until time.Time `json:"Until"`
	// Hash is that of the earlier secret, as the store looks for it. The store sets it.
	Hash []byte `json:"Hash,omitempty"`
	// Reissued is the [Key.Reissued] of the time of the earlier secret.
	Reissued time.Time `json:"Reissued,omitzero"`
}

// Apply returns the key as the reissue leaves it: ErrKeyRevoked, *InputError. A store calls it in the
// transaction that replaces the secret. An overlap of an earlier reissue ends.
func (r Reissue) Apply(k Key) (Key, error) {
	if k.Revoked() {
		return k, ErrKeyRevoked
	}
	if r.Overlap != 0 && (r.Overlap < MinOverlap || r.Overlap > MaxOverlap) {
		return k, &InputError{Field: "overlap", Reason: "from one minute to 30 days"}
	}
	was := k.Reissued
	k.Reissued, k.Overlap = r.At, nil
	if r.Overlap > 0 {
		k.Overlap = &Overlap{Until: r.At.Add(r.Overlap), Reissued: was}
	}
	return k, nil
}

// EarlierUntil returns the time until which the secret before the present one works; zero: it does not.
func (k Key) EarlierUntil(now time.Time) time.Time {
	if k.Overlap == nil || k.Revoked() || !now.Before(k.Overlap.Until) {
		return time.Time{}
	}
	return k.Overlap.Until
}

// EarlierSecretError is the ErrSecretReplaced of a store for the secret of an overlap, ended or not. Callers
// that do not ask it with [Found] take the secret for one that was replaced.
type EarlierSecretError struct{ Key Key }

// Error implements error.
func (e *EarlierSecretError) Error() string { return ErrSecretReplaced.Error() }

// Unwrap makes it an ErrSecretReplaced.
func (e *EarlierSecretError) Unwrap() error { return ErrSecretReplaced }

// Replaced returns the error for a secret with a hash that was replaced at a key.
func Replaced(k Key, hash []byte) error {
	if k.Overlap == nil || !bytes.Equal(k.Overlap.Hash, hash) {
		return ErrSecretReplaced
	}
	return &EarlierSecretError{k}
}

// secret tells the secret that found the key from the others that it has had.
func (k Key) secret() time.Time {
	if !k.Ends.IsZero() && k.Overlap != nil {
		return k.Overlap.Reissued
	}
	return k.Reissued
}

// accepts reports whether the secret that found the key earlier works still.
func (k Key) accepts(earlier Key, now time.Time) bool {
	used := earlier.secret()
	return used.Equal(k.Reissued) || !k.EarlierUntil(now).IsZero() && used.Equal(k.Overlap.Reissued)
}
