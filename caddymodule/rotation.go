package caddymodule

// No Caddy here: it rotates the keys of the store and the authority for the operator's API.

import (
	"context"
	"errors"
	"net/http"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/vault"
)

var (
	errGivenAuthority = adminapi.Errorf(http.StatusConflict,
		"the configuration has an authority %q of its own in Caddy's PKI app: rotate it there", authorityID)
	errNoNextAuthority = adminapi.Errorf(http.StatusConflict, "there is no next root: begin with 'purser rotate authority'")
	errNoAuthority     = adminapi.Errorf(http.StatusConflict, "nothing is intercepted (PURSER_INTERCEPT), so there is no root")
	errNoMasterKey     = adminapi.Errorf(http.StatusBadRequest,
		"the master key is configured, so purser cannot replace it: make another one, and name its file with --new-key-file")
	errOwnMasterKey = adminapi.Errorf(http.StatusBadRequest,
		"purser keeps its master key in a file of its own, and makes the next one itself: leave out --new-key-file")
)

// sealingStore is a store that seals secrets with keys of its own.
type sealingStore interface {
	Rotation() boltstore.Resealed
	RotateDataKey(ctx context.Context) error
	AddMasterKey(ctx context.Context, next vault.MasterKey) error
	UseMasterKey(ctx context.Context, next vault.MasterKey) error
}

// rotator rotates the keys of a tenant.
type rotator struct{ t *tenant }

func (r rotator) store() (sealingStore, error) {
	s, ok := r.t.home.store.(sealingStore)
	if !ok {
		return nil, adminapi.Errorf(http.StatusNotImplemented, "the keys of a %s store cannot be rotated", r.t.home.store.Kind())
	}
	return s, nil
}

// Rotation tells how far rotations are.
func (r rotator) Rotation() (adminapi.Rotation, error) {
	s, err := r.store()
	if err != nil {
		return adminapi.Rotation{}, err
	}
	is := s.Rotation()
	shown := adminapi.Rotation{
		DataKey: is.DataKey, OlderDataKeys: is.Older, SealedAgain: is.Done, Stopped: is.Stopped,
		MasterKey: r.t.app.settings.masterKeyPlace, MasterKeyFollows: is.MasterKeyFollows,
	}
	if a := r.t.authority; a != nil {
		shown.Authority = a.state()
	}
	return shown, nil
}

// RotateDataKey begins the rotation of the data key.
func (r rotator) RotateDataKey(ctx context.Context) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	return conflicting(s.RotateDataKey(ctx))
}

// RotateMasterKey replaces the master key in purser's own file. A configured one it cannot replace:
// it lets the next one open the database as well, until a start with that one.
func (r rotator) RotateMasterKey(ctx context.Context, next string) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	file := r.t.app.settings.masterKeyFile
	switch {
	case file == "" && next == "":
		return errNoMasterKey
	case file == "":
		key, err := vault.ParseMasterKey(next)
		if err != nil {
			return adminapi.Errorf(http.StatusBadRequest, "%w", err)
		}
		return conflicting(s.AddMasterKey(ctx, key))
	case next != "":
		return errOwnMasterKey
	}
	// Either of the two opens the database until the file has the new one.
	key := vault.Generate()
	if err := s.AddMasterKey(ctx, key); err != nil {
		return conflicting(err)
	}
	if err := vault.Replace(file, key); err != nil {
		return err
	}
	return s.UseMasterKey(ctx, key)
}

// RotateAuthority begins or finishes the rotation of the root of the interception.
func (r rotator) RotateAuthority(ctx context.Context, finish bool) error {
	a := r.t.authority
	if a == nil {
		return errNoAuthority
	}
	step, done := a.begin, "there are two roots of the interception now"
	if finish {
		step, done = a.finish, "the next root of the interception is the only one now"
	}
	if err := step(ctx); err != nil {
		return err
	}
	r.t.log.Info(done, "file", rootFile)
	return a.export(r.t.app.settings.dataDir)
}

// conflicting gives errors of the vault their status.
func conflicting(err error) error {
	if errors.Is(err, vault.ErrMasterKeyFollows) || errors.Is(err, vault.ErrSameMasterKey) {
		return adminapi.Errorf(http.StatusConflict, "%w", err)
	}
	return err
}
