package keystore

import (
	"crypto/ecdh"
	"crypto/hpke"
	"errors"
	"fmt"
)

// ErrOpen: a sealed key was made for another receiver or purpose, or was changed on its way.
var ErrOpen = errors.New("the key cannot be opened: it was sealed for another receiver")

// Receiver opens keys that were sealed to its public key: HPKE (RFC 9180) to a key that it has just
// made and keeps in memory only. Neither a wallet's key nor a passphrase can be read from a message
// between a command and purser, from a log or from a trace.
//
// Receiver does not say who it is. The socket's mode does.
type Receiver struct{ private hpke.PrivateKey }

// NewReceiver makes a receiver with a fresh key.
func NewReceiver() (*Receiver, error) {
	private, err := kem().GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("make a key to receive with: %w", err)
	}
	return &Receiver{private}, nil
}

// Public returns the receiver's public key.
func (r *Receiver) Public() []byte { return r.private.PublicKey().Bytes() }

// Open decrypts a secret that was sealed for a purpose: ErrOpen.
func (r *Receiver) Open(sealed []byte, purpose string) ([]byte, error) {
	secret, err := hpke.Open(r.private, hpke.HKDFSHA256(), hpke.AES256GCM(), info(purpose), sealed)
	if err != nil {
		return nil, ErrOpen
	}
	return secret, nil
}

// Seal encrypts a secret to a receiver's public key. The purpose names what it is for.
func Seal(public, secret []byte, purpose string) ([]byte, error) {
	to, err := kem().NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("the receiver's public key: %w", err)
	}
	sealed, err := hpke.Seal(to, hpke.HKDFSHA256(), hpke.AES256GCM(), info(purpose), secret)
	if err != nil {
		return nil, fmt.Errorf("seal a key: %w", err)
	}
	return sealed, nil
}

func kem() hpke.KEM { return hpke.DHKEM(ecdh.X25519()) }

func info(purpose string) []byte { return []byte("purser/handover/" + purpose) }
