package x402

import (
	"errors"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// KeySize is the length of a private key, in bytes.
const KeySize = 32

// Key is the private key of an EVM account: a number of secp256k1, at least 1 and below the order of the curve.
// The zero value is no key, and signs nothing.
type Key struct{ number secp256k1.ModNScalar }

// NewKey makes a key from the system's random source.
func NewKey() (*Key, error) {
	made, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	defer made.Zero()
	return &Key{made.Key}, nil
}

// ParseKey reads the number of a key from KeySize bytes, the highest first. Its error tells nothing of them.
func ParseKey(secret []byte) (*Key, error) {
	var k Key
	if len(secret) != KeySize || k.number.SetByteSlice(secret) || k.number.IsZero() {
		k.Wipe()
		return nil, errors.New("not a private key of secp256k1")
	}
	return &k, nil
}

// Bytes returns what ParseKey reads. The caller may overwrite it.
func (k *Key) Bytes() []byte {
	b := k.number.Bytes()
	return b[:]
}

// Address returns the address of the key's account. It costs as much as a signature.
func (k *Key) Address() Address { return addressOf(secp256k1.NewPrivateKey(&k.number).PubKey()) }

// Sign signs a digest. The signature is deterministic (RFC 6979), has a low s (EIP-2) and v 27 or 28. It fails
// for the zero value and for a wiped key.
func (k *Key) Sign(digest [32]byte) (Signature, error) {
	if k.number.IsZero() {
		return Signature{}, errors.New("sign: no key")
	}
	private := secp256k1.NewPrivateKey(&k.number)
	defer private.Zero()
	compact := ecdsa.SignCompact(private, digest[:], false) // v‖r‖s
	return Signature(append(compact[1:], compact[0])), nil
}

// Wipe overwrites the key. Copies made by the arithmetic stay out of reach.
func (k *Key) Wipe() { k.number.Zero() }

// addressOf returns the address of a public key.
func addressOf(k *secp256k1.PublicKey) Address {
	return EVMAddress([20]byte(Keccak256(k.SerializeUncompressed()[1:])[12:]))
}
