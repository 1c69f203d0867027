// Package keystore reads and writes a private key in the JSON that Ethereum wallets exchange: Web3
// Secret Storage, version 3, as go-ethereum's accounts/keystore has it. A passphrase encrypts the key.
// It also carries a key between a command and a running purser, so that it crosses the admin endpoint
// encrypted.
//
// go-ethereum's own package is under the LGPL, panics on a file without some of the fields, and follows one
// that asks for any amount of memory. The tests exchange files with it.
package keystore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/crypto/scrypt"

	"github.com/purserpay/purser/x402"
)

// MaxSize bounds the text of a keystore, in bytes.
const MaxSize = 16 << 10

// The cost of scrypt in what Encrypt writes: that of go-ethereum. It takes 256 MiB and about a second.
const (
	scryptN = 1 << 18
	scryptR = 8
	scryptP = 1
)

// Bounds of what Decrypt follows: twice the memory and eight times the work of what Encrypt writes.
const (
	maxScryptMemory = 512 << 20 // bytes
	maxScryptWork   = 8 * scryptN * scryptR * scryptP
	maxIterations   = 10_000_000 // of PBKDF2
	keySize         = 32
)

var (
	// ErrPassphrase: the passphrase is not that of the keystore, or the keystore is damaged.
	ErrPassphrase = errors.New("wrong passphrase, or the keystore is damaged")
	// ErrFormat: the text is no keystore that this package reads. The error that wraps it says why.
	ErrFormat = errors.New("not a keystore of Ethereum (Web3 Secret Storage, version 3)")
)

type file struct {
	Address string    `json:"address,omitempty"` // 40 hex digits; some wallets leave it out
	Crypto  encrypted `json:"crypto"`
	ID      string    `json:"id"`
	Version int       `json:"version"`
}

type encrypted struct {
	Cipher string `json:"cipher"`
	Text   string `json:"ciphertext"`
	Params struct {
		IV string `json:"iv"`
	} `json:"cipherparams"`
	KDF       string     `json:"kdf"`
	KDFParams derivation `json:"kdfparams"`
	MAC       string     `json:"mac"`
}

// derivation holds the parameters of scrypt, or those of PBKDF2.
type derivation struct {
	Length     int    `json:"dklen"`
	Salt       string `json:"salt"`
	N          int    `json:"n,omitempty"`
	R          int    `json:"r,omitempty"`
	P          int    `json:"p,omitempty"`
	Iterations int    `json:"c,omitempty"`
	PRF        string `json:"prf,omitempty"`
}

// Encrypt writes a secret of 32 bytes as a keystore.
func Encrypt(secret []byte, passphrase string) ([]byte, error) {
	return encrypt(secret, passphrase, scryptN)
}

func encrypt(secret []byte, passphrase string, n int) ([]byte, error) {
	address, err := addressOf(secret)
	if err != nil {
		return nil, err
	}
	var salt [32]byte
	var iv [aes.BlockSize]byte
	_, _ = rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	_, _ = rand.Read(iv[:])
	f := file{Address: hex.EncodeToString(address.Bytes()), ID: uuid.NewString(), Version: 3}
	f.Crypto = encrypted{
		Cipher: "aes-128-ctr", KDF: "scrypt",
		KDFParams: derivation{Length: keySize, Salt: hex.EncodeToString(salt[:]), N: n, R: scryptR, P: scryptP},
	}
	f.Crypto.Params.IV = hex.EncodeToString(iv[:])
	derived, err := f.Crypto.KDFParams.scrypt(passphrase)
	if err != nil {
		return nil, err
	}
	defer clear(derived)
	text, err := xor(derived[:16], iv[:], secret)
	if err != nil {
		return nil, err
	}
	f.Crypto.Text = hex.EncodeToString(text)
	f.Crypto.MAC = hex.EncodeToString(x402.Keccak256(derived[16:32], text))
	return json.Marshal(f)
}

// Decrypt returns the secret of a keystore: ErrFormat, ErrPassphrase. The errors have no part of the
// secret or the passphrase.
func Decrypt(text []byte, passphrase string) ([]byte, error) {
	f, err := read(text)
	if err != nil {
		return nil, err
	}
	derived, err := f.Crypto.derive(passphrase)
	if err != nil {
		return nil, err
	}
	defer clear(derived)
	sealed, err := unhex("ciphertext", f.Crypto.Text, keySize)
	if err != nil {
		return nil, err
	}
	iv, err := unhex("iv", f.Crypto.Params.IV, aes.BlockSize)
	if err != nil {
		return nil, err
	}
	mac, err := unhex("mac", f.Crypto.MAC, keySize)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(mac, x402.Keccak256(derived[16:32], sealed)) != 1 {
		return nil, ErrPassphrase
	}
	secret, err := xor(derived[:16], iv, sealed)
	if err != nil {
		return nil, err
	}
	address, err := addressOf(secret)
	if err == nil && f.Address != "" && !strings.EqualFold(strings.TrimPrefix(f.Address, "0x"), hex.EncodeToString(address.Bytes())) {
		err = formatErrorf("its address is not that of its key")
	}
	if err != nil {
		clear(secret)
		return nil, err
	}
	return secret, nil
}

func read(text []byte) (f file, err error) {
	if len(text) > MaxSize {
		return f, formatErrorf("it is larger than %d bytes", MaxSize)
	}
	var version struct{ Version json.RawMessage }
	if err := json.Unmarshal(text, &version); err != nil {
		return f, formatErrorf("it is no JSON object")
	}
	if string(version.Version) != "3" {
		return f, formatErrorf("its version is %.20q", string(version.Version))
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, formatErrorf("%w", err)
	}
	if f.Crypto.Cipher != "aes-128-ctr" {
		return f, formatErrorf("its cipher is %.20q, and aes-128-ctr is the one that wallets use", f.Crypto.Cipher)
	}
	return f, nil
}

func (e encrypted) derive(passphrase string) ([]byte, error) {
	p := e.KDFParams
	if p.Length != keySize {
		return nil, formatErrorf("dklen is %d and not %d", p.Length, keySize)
	}
	switch e.KDF {
	case "scrypt":
		return p.scrypt(passphrase)
	case "pbkdf2":
		return p.pbkdf2(passphrase)
	}
	return nil, formatErrorf("its kdf is %.20q, and scrypt and pbkdf2 are the ones that wallets use", e.KDF)
}

func (p derivation) scrypt(passphrase string) ([]byte, error) {
	salt, err := unhex("salt", p.Salt, 0)
	if err != nil {
		return nil, err
	}
	if p.N < 2 || bits.OnesCount(uint(p.N)) != 1 || p.R < 1 || p.P < 1 {
		return nil, formatErrorf("scrypt has no such parameters: n %d, r %d, p %d", p.N, p.R, p.P)
	}
	if p.N > maxScryptMemory/128/p.R || p.P > maxScryptWork/p.N/p.R {
		return nil, formatErrorf("scrypt with n %d, r %d, p %d takes too much memory or time", p.N, p.R, p.P)
	}
	derived, err := scrypt.Key([]byte(passphrase), salt, p.N, p.R, p.P, p.Length)
	if err != nil {
		return nil, formatErrorf("%w", err)
	}
	return derived, nil
}

func (p derivation) pbkdf2(passphrase string) ([]byte, error) {
	salt, err := unhex("salt", p.Salt, 0)
	if err != nil {
		return nil, err
	}
	if p.PRF != "hmac-sha256" || p.Iterations < 1 || p.Iterations > maxIterations {
		return nil, formatErrorf("pbkdf2 with prf %.20q and c %d: hmac-sha256 with 1 to %d is read", p.PRF, p.Iterations, maxIterations)
	}
	derived, err := pbkdf2.Key(sha256.New, passphrase, salt, p.Iterations, p.Length)
	if err != nil {
		return nil, formatErrorf("%w", err)
	}
	return derived, nil
}

func addressOf(secret []byte) (x402.Address, error) {
	key, err := x402.ParseKey(secret)
	if err != nil {
		return x402.Address{}, formatErrorf("what it holds is no private key")
	}
	defer key.Wipe()
	return key.Address(), nil
}

func xor(key, iv, text []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("set up AES: %w", err)
	}
	out := make([]byte, len(text))
	cipher.NewCTR(block, iv).XORKeyStream(out, text)
	return out, nil
}

// unhex reads hex digits; size 0 is any.
func unhex(field, text string, size int) ([]byte, error) {
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil || size > 0 && len(b) != size {
		return nil, formatErrorf("its %s is not in hex, or has another length", field)
	}
	return b, nil
}

func formatErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFormat}, args...)...)
}
