package vault

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/purserpay/purser/internal/atomicfile"
)

// MasterKey encrypts a store's keys. Without it, the wallets in the store are lost.
type MasterKey [KeySize]byte

// String hides the key from logs and errors.
func (MasterKey) String() string { return "[master key]" }

// GoString hides the key from %#v.
func (MasterKey) GoString() string { return "[master key]" }

// MarshalText hides the key from encoders.
func (k MasterKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Source returns the master key of a store. It may generate the key only when fresh is true: the
// store is then new, and nothing is encrypted yet.
type Source func(fresh bool) (MasterKey, error)

// Given returns a source for a key that the caller has already.
func Given(key MasterKey) Source {
	return func(bool) (MasterKey, error) { return key, nil }
}

// From returns a source that finds the key in one of three places. value holds its text
// (PURSER_MASTER_KEY). file holds the path of a file with that text (PURSER_MASTER_KEY_FILE). With
// neither, the key is in the file at fallback. When that file is missing and the store is fresh, a
// key is generated there. An existing file is never overwritten. Errors contain no part of the key.
func From(value, file, fallback string) Source {
	return func(fresh bool) (key MasterKey, err error) {
		setting := "PURSER_MASTER_KEY"
		switch {
		case value != "" && file != "":
			return key, errors.New("both PURSER_MASTER_KEY and PURSER_MASTER_KEY_FILE are set: keep one")
		case value != "":
			key, err = ParseMasterKey(value)
		case file != "":
			setting = "master key file (PURSER_MASTER_KEY_FILE)"
			key, err = readKeyFile(file)
		case fallback == "":
			return key, errors.New("no master key: set PURSER_MASTER_KEY")
		default:
			setting = "master key file (PURSER_MASTER_KEY is not set)"
			key, err = readKeyFile(fallback)
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !fresh {
				return key, fmt.Errorf("the store exists, but its master key file %s is missing: put it back or set "+
					"PURSER_MASTER_KEY; a new key could not decrypt the wallets that are in the store", fallback)
			}
			if err := generate(fallback); err != nil {
				return key, fmt.Errorf("generate master key file: %w", err)
			}
			key, err = readKeyFile(fallback) // another process may have written it first
		}
		if err != nil {
			return MasterKey{}, fmt.Errorf("%s: %w", setting, err)
		}
		return key, nil
	}
}

// maxKeyFile bounds a key file, in bytes. A longer file holds something else.
const maxKeyFile = 4 << 10

// ParseMasterKey reads 32 bytes in hex or in base64, standard or URL-safe, padded or not.
func ParseMasterKey(text string) (MasterKey, error) {
	text = strings.TrimSpace(text)
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != KeySize {
		encoding := base64.RawStdEncoding
		if strings.ContainsAny(text, "-_") {
			encoding = base64.RawURLEncoding
		}
		raw, err = encoding.DecodeString(strings.TrimRight(text, "="))
	}
	if err != nil || len(raw) != KeySize {
		return MasterKey{}, fmt.Errorf("not a master key: want %d bytes in hex or base64", KeySize)
	}
	return MasterKey(raw), nil
}

func readKeyFile(path string) (MasterKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return MasterKey{}, err
	}
	if info.Size() > maxKeyFile {
		return MasterKey{}, fmt.Errorf("%s is too large to be a master key", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return MasterKey{}, err
	}
	key, err := ParseMasterKey(string(text))
	if err != nil {
		return MasterKey{}, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// Generate makes a master key.
func Generate() (key MasterKey) {
	rand.Read(key[:]) // never fails
	return key
}

// Replace puts a master key in the place of the one in a file. The file has the one or the other,
// whatever fails.
func Replace(path string, key MasterKey) error {
	if err := atomicfile.Write(path, []byte(key.text()), 0o600); err != nil { // the key opens the wallets
		return fmt.Errorf("replace the master key file: %w", err)
	}
	return SyncDir(filepath.Dir(path)) // the former key must not come back with a power cut
}

// text returns the key as files have it.
func (k MasterKey) text() string { return hex.EncodeToString(k[:]) + "\n" }

// generate writes a new key to path unless a file is there. The file appears whole and durable, or
// not at all: a power cut must not take away a key that a store is encrypted with.
func generate(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key := Generate()
	temp, err := os.CreateTemp(dir, ".master-key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	if err := writeKey(temp, key); err != nil {
		return err
	}
	// A hard link, unlike a rename, fails when path exists.
	err = os.Link(temp.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = createExclusive(path, key) // the file system has no hard links
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(dir)
}

// writeKey writes the key's text, makes it durable and closes the file.
func writeKey(f *os.File, key MasterKey) error {
	_, err := f.WriteString(key.text())
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func createExclusive(path string, key MasterKey) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // the key opens the wallets
	if err != nil {
		return err
	}
	return writeKey(f, key)
}

// SyncDir makes the name of a new file in dir durable. Some systems cannot sync a folder; they keep
// names without it.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
