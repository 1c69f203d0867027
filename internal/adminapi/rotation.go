package adminapi

import (
	"context"
	"net/http"
	"time"
)

// Rotator replaces keys while purser runs.
type Rotator interface {
	Rotation() (Rotation, error)
	RotateDataKey(ctx context.Context) error
	// RotateMasterKey takes the text of the next master key where purser cannot replace the one in
	// force; else "".
	RotateMasterKey(ctx context.Context, next string) error
	RotateAuthority(ctx context.Context, finish bool) error
}

// Rotation answers GET /purser/rotation.
type Rotation struct {
	DataKey       uint32 `json:"data_key"`        // version of the newest, from 1
	OlderDataKeys int    `json:"older_data_keys"` // that still seal something
	SealedAgain   int    `json:"sealed_again"`    // secrets, since the start or the last rotation
	// Stopped says why sealing again has stopped; "": it has not.
	Stopped   string `json:"stopped,omitempty"`
	MasterKey string `json:"master_key"` // where it is
	// MasterKeyFollows: another master key opens the database too, and the next start with it ends
	// the use of the one in force.
	MasterKeyFollows bool               `json:"master_key_follows"`
	Authority        *AuthorityRotation `json:"authority"` // nil when nothing is intercepted
}

// AuthorityRotation names the roots of the interception.
type AuthorityRotation struct {
	Signing string    `json:"signing"`
	Until   time.Time `json:"until"`
	Next    string    `json:"next,omitempty"`
}

func (p *Purser) rotation(*http.Request) (any, error) { return p.Rotator.Rotation() }

func (p *Purser) rotateDataKey(r *http.Request) (any, error) {
	if err := p.Rotator.RotateDataKey(r.Context()); err != nil {
		return nil, err
	}
	return p.Rotator.Rotation()
}

// NextMasterKey is the body of POST /purser/rotation/master-key.
type NextMasterKey struct {
	NewKey string `json:"new_key"` // hex or base64; "" where purser keeps the key in a file of its own
}

func (p *Purser) rotateMasterKey(r *http.Request, next NextMasterKey) (any, error) {
	if err := p.Rotator.RotateMasterKey(r.Context(), next.NewKey); err != nil {
		return nil, err
	}
	return p.Rotator.Rotation()
}

// RotateAuthority is the body of POST /purser/rotation/authority.
type RotateAuthority struct {
	Finish bool `json:"finish"` // else the rotation begins
}

func (p *Purser) rotateAuthority(r *http.Request, step RotateAuthority) (any, error) {
	if err := p.Rotator.RotateAuthority(r.Context(), step.Finish); err != nil {
		return nil, err
	}
	return p.Rotator.Rotation()
}
