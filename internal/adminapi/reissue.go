package adminapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// ReissuedKey answers POST /purser/keys/{id}/reissue. The secret is not told again.
type ReissuedKey struct {
	Key   string `json:"key"`
	ID    string `json:"id"`
	Label string `json:"label"`
	// Configured names the settings that have the secret that was replaced, such as PURSER_KEY. A
	// door that pays with such a setting pays nothing until the setting has the new one.
	Configured []string `json:"configured,omitempty"`
	Exec       bool     `json:"exec,omitempty"` // `purser exec` uses the new one by itself
	// EarlierUntil tells until when the secret that was replaced works; zero: it has stopped.
	EarlierUntil time.Time `json:"earlier_secret_until,omitzero"`
}

// NewSecret is the body of POST /purser/keys/{id}/reissue.
type NewSecret struct {
	// OverlapSeconds tells for how long the earlier secret works: see [pay.Reissue].
	OverlapSeconds int64 `json:"overlap_seconds"`
}

// reissueKey gives a key another secret.
func (p *Purser) reissueKey(r *http.Request, want NewSecret) (any, error) {
	if want.OverlapSeconds < 0 || want.OverlapSeconds > int64(pay.MaxOverlap/time.Second) {
		return nil, &pay.InputError{Field: "overlap", Reason: "up to 30 days"}
	}
	k, err := p.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	var configured []string
	for _, s := range p.ConfiguredKeys() {
		of, err := p.Books.KeyBySecret(r.Context(), s.Secret)
		if err != nil && !errors.Is(err, pay.ErrKeyNotFound) {
			return nil, err
		}
		if err == nil && of.ID == k.ID {
			configured = append(configured, s.Setting)
		}
	}
	k, secret, err := p.Books.ReissueKey(r.Context(), k.ID, time.Duration(want.OverlapSeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	return ReissuedKey{Key: secret, ID: k.ID, Label: k.Label, Configured: configured, Exec: k.Exec, EarlierUntil: k.EarlierUntil(p.Books.Now())}, nil
}

// ConfiguredKey is the secret of a key that a setting names.
type ConfiguredKey struct{ Setting, Secret string }
