// Package vault encrypts the secrets of a store. A master key, which never touches the database,
// encrypts a lookup key and versioned data keys. The store keeps these encrypted keys.
//
// The lookup key makes the hashes by which API keys are found. It is never replaced. Data keys
// encrypt secrets that must be read again: claimed API keys and wallet keys. Master key and data keys
// can be rotated: see rotation.go. The package reads and writes only the master key's file, and knows
// no records.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// KeySize is the size of every key, in bytes.
const KeySize = 32

// ErrWrongMasterKey reports a master key that cannot decrypt the store's keys.
var ErrWrongMasterKey = errors.New("the master key is not the one this store was created with")

// The purpose of an encrypted key is authenticated with it, so that no key can replace another.
const (
	lookupPurpose = "purser/lookup-key"
	dataPurpose   = "purser/data-key/"
)

// Vault encrypts, decrypts and hashes secrets. It is safe for concurrent use, and never changes.
type Vault struct {
	lookup  []byte
	data    map[uint32]cipher.AEAD
	current uint32

	// A rotation needs these: see rotation.go.
	master cipher.AEAD
	state  wrapped
	byNext bool
}

// wrapped is the form in which a store keeps its keys. It is useless without the master key.
type wrapped struct {
	Lookup []byte            `json:"lookup"`
	Data   map[uint32][]byte `json:"data"` // by version, from 1
	// Next holds the same keys under the master key that is to follow; nil: none is.
	Next *wrapped `json:"next,omitempty"`
}

// New makes a vault with fresh keys. The caller must store the returned state, which [Open] needs
// beside the master key.
func New(master MasterKey) (v *Vault, state []byte, err error) {
	wrap, err := gcm(master[:])
	if err != nil {
		return nil, nil, err
	}
	state, err = wrapped{Lookup: fresh(wrap, lookupPurpose), Data: map[uint32][]byte{1: fresh(wrap, dataPurposeOf(1))}}.encode()
	if err != nil {
		return nil, nil, err
	}
	v, err = Open(master, state)
	return v, state, err
}

// fresh makes a key, and encrypts it with a master key.
func fresh(master cipher.AEAD, purpose string) []byte {
	key := make([]byte, KeySize)
	rand.Read(key)                                     // never fails
	return master.Seal(nil, nil, key, []byte(purpose)) //nolint:gosec // the AEAD makes its own random nonce
}

func (w wrapped) encode() ([]byte, error) {
	state, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode wrapped keys: %w", err)
	}
	return state, nil
}

// Open decrypts the keys of a state that this package returned. It fails with ErrWrongMasterKey for a
// master key that is neither the one in force nor the next one.
func Open(master MasterKey, state []byte) (*Vault, error) {
	var w wrapped
	if err := json.Unmarshal(state, &w); err != nil || len(w.Data) == 0 {
		return nil, errors.New("the wrapped keys are damaged")
	}
	cipher, err := gcm(master[:])
	if err != nil {
		return nil, err
	}
	v, err := unwrap(cipher, w)
	if errors.Is(err, ErrWrongMasterKey) && w.Next != nil {
		if v, err = unwrap(cipher, *w.Next); err == nil {
			v.byNext = true
		}
	}
	return v, err
}

// unwrap decrypts the keys of a state with the master key that is in force there.
func unwrap(master cipher.AEAD, w wrapped) (*Vault, error) {
	v := &Vault{data: make(map[uint32]cipher.AEAD, len(w.Data)), master: master, state: w}
	var err error
	if v.lookup, err = decrypt(master, w.Lookup, lookupPurpose); err != nil {
		return nil, ErrWrongMasterKey
	}
	for version, sealed := range w.Data {
		key, err := decrypt(master, sealed, dataPurposeOf(version))
		if err != nil {
			return nil, fmt.Errorf("data key %d: %w", version, ErrWrongMasterKey)
		}
		if v.data[version], err = gcm(key); err != nil {
			return nil, err
		}
		v.current = max(v.current, version)
	}
	return v, nil
}

// Lookup returns the keyed hash by which a secret is found.
func (v *Vault) Lookup(secret string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, v.lookup)
	mac.Write([]byte(secret))
	return [sha256.Size]byte(mac.Sum(nil))
}

// Derive returns 32 bytes that depend on the purpose, the parts and this vault's lookup key. The
// hash begins with a zero byte, which no secret given to [Vault.Lookup] does. The two hashes
// therefore never coincide.
func (v *Vault) Derive(purpose string, parts ...string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, v.lookup)
	mac.Write([]byte{0})
	for _, part := range append([]string{purpose}, parts...) {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return [sha256.Size]byte(mac.Sum(nil))
}

// Seal encrypts a secret with the newest data key. It authenticates the record's identity too: a
// sealed secret that is copied to another record cannot be unsealed.
func (v *Vault) Seal(secret []byte, identity string) ([]byte, error) {
	if identity == "" {
		return nil, errors.New("seal: no identity")
	}
	head := binary.BigEndian.AppendUint32(nil, v.current)
	return v.data[v.current].Seal(head, nil, secret, []byte(identity)), nil //nolint:gosec // as in New
}

// Unseal decrypts a secret that Seal encrypted for the same identity.
func (v *Vault) Unseal(sealed []byte, identity string) ([]byte, error) {
	if len(sealed) < 4 {
		return nil, errors.New("sealed secret is too short")
	}
	version := binary.BigEndian.Uint32(sealed)
	key, ok := v.data[version]
	if !ok {
		return nil, fmt.Errorf("sealed with data key %d, which this store does not have", version)
	}
	secret, err := decrypt(key, sealed[4:], identity)
	if err != nil {
		return nil, fmt.Errorf("unseal with data key %d: %w", version, err)
	}
	return secret, nil
}

func dataPurposeOf(version uint32) string { return fmt.Sprintf("%s%d", dataPurpose, version) }

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("set up AES: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("set up GCM: %w", err)
	}
	return aead, nil
}

func decrypt(key cipher.AEAD, sealed []byte, identity string) ([]byte, error) {
	return key.Open(nil, nil, sealed, []byte(identity))
}
