package vault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
)

// A vault never changes. Each step of a rotation returns the vault that is to follow with its state,
// which the caller must store before it uses the vault.

// Errors of rotations.
var (
	// ErrSameMasterKey reports a master key that is in force already.
	ErrSameMasterKey = errors.New("that master key is in force already")
	// ErrMasterKeyFollows: another master key is to follow. A new data key could not be wrapped with
	// it, because only the one in force is at hand.
	ErrMasterKeyFollows = errors.New("another master key is to follow; purser must start with it first")
)

// DataKeys returns the number of data keys, and the version of the newest one.
func (v *Vault) DataKeys() (n int, newest uint32) { return len(v.state.Data), v.current }

// MasterKeyFollows reports whether the state can be opened by another master key, too.
func (v *Vault) MasterKeyFollows() bool { return v.state.Next != nil }

// ByNext reports whether the vault was opened by the master key that was to follow. The state must
// then be replaced by that of the vault, because the former master key still opens it.
func (v *Vault) ByNext() bool { return v.byNext }

// State returns the form in which a store keeps the keys.
func (v *Vault) State() ([]byte, error) { return v.state.encode() }

// AddDataKey adds a fresh data key, with which the following vault seals: ErrMasterKeyFollows.
func (v *Vault) AddDataKey() (*Vault, error) {
	if v.MasterKeyFollows() {
		return nil, ErrMasterKeyFollows
	}
	w := v.state
	w.Data = maps.Clone(w.Data)
	w.Data[v.current+1] = fresh(v.master, dataPurposeOf(v.current+1))
	return unwrap(v.master, w)
}

// DropDataKeys drops all data keys but the newest from the state. The following vault still unseals
// what they have sealed, for readers that have read it before: ErrMasterKeyFollows.
func (v *Vault) DropDataKeys() (*Vault, error) {
	if v.MasterKeyFollows() {
		return nil, ErrMasterKeyFollows
	}
	next := *v
	next.state.Data = map[uint32][]byte{v.current: v.state.Data[v.current]}
	return &next, nil
}

// AddMasterKey wraps all keys with a second master key, so that either of the two opens the state. An
// earlier one that was to follow is forgotten: ErrSameMasterKey.
func (v *Vault) AddMasterKey(next MasterKey) (*Vault, error) {
	cipher, err := gcm(next[:])
	if err != nil {
		return nil, err
	}
	if _, err := decrypt(cipher, v.state.Lookup, lookupPurpose); err == nil {
		return nil, ErrSameMasterKey
	}
	rewrap := func(sealed []byte, purpose string) ([]byte, error) {
		key, err := decrypt(v.master, sealed, purpose)
		if err != nil {
			return nil, fmt.Errorf("wrap the keys again: %w", err)
		}
		defer clear(key)
		return cipher.Seal(nil, nil, key, []byte(purpose)), nil //nolint:gosec // as in fresh
	}
	w := wrapped{Data: make(map[uint32][]byte, len(v.state.Data))}
	if w.Lookup, err = rewrap(v.state.Lookup, lookupPurpose); err != nil {
		return nil, err
	}
	for version, sealed := range v.state.Data {
		if w.Data[version], err = rewrap(sealed, dataPurposeOf(version)); err != nil {
			return nil, err
		}
	}
	following := *v
	following.state.Next = &w
	return &following, nil
}

// UseMasterKey puts the master key that AddMasterKey has added in the place of the former one, which
// then opens the state no more: ErrWrongMasterKey.
func (v *Vault) UseMasterKey(next MasterKey) (*Vault, error) {
	if v.state.Next == nil {
		return nil, ErrWrongMasterKey
	}
	cipher, err := gcm(next[:])
	if err != nil {
		return nil, err
	}
	following, err := unwrap(cipher, *v.state.Next)
	if err != nil {
		return nil, err
	}
	for version, key := range v.data { // see DropDataKeys
		if following.data[version] == nil {
			following.data[version] = key
		}
	}
	return following, nil
}

// Newest reports whether a secret is sealed with the newest data key.
func (v *Vault) Newest(sealed []byte) bool {
	return len(sealed) >= 4 && binary.BigEndian.Uint32(sealed) == v.current
}
