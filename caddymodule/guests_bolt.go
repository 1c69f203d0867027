package caddymodule

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/setting"
)

// BoltStore keeps everything in one bbolt file, for one purser process.
type BoltStore struct {
	// Path of the database file. Default: purser.db in the data directory.
	Path string `json:"path,omitempty"`
	// MinFree is the free disk space, such as "64MiB", below which no new payments are
	// made, so that outcomes still fit. Default: 64 MiB.
	MinFree string `json:"min_free,omitempty"`

	path    string
	minFree uint64
}

// databaseName is the file's in the data directory.
const databaseName = "purser.db"

// CaddyModule returns the Caddy module information.
func (*BoltStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: storeNamespace + ".bolt", New: func() caddy.Module { return new(BoltStore) }}
}

// Provision resolves the options.
func (s *BoltStore) Provision(caddy.Context) error {
	minFree, size := setting.New("store bolt min_free", "PURSER_BOLT_MIN_FREE", ""), ""
	err := cmp.Or(
		setting.Set(&s.path, setting.New("store bolt path", "PURSER_BOLT_PATH", "").Value, s.Path), setting.Set(&size, minFree.Value, s.MinFree),
	)
	if err != nil || size == "" {
		return err
	}
	if s.minFree, err = humanize.ParseBytes(size); err != nil {
		return minFree.Errorf("%q is not a size such as 64MiB", size)
	}
	return nil
}

// UnmarshalCaddyfile reads:
//
//	store bolt {
//	    path     <file>
//	    min_free <size>
//	}
func (s *BoltStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseModule(d, s, nil)
}

// Place is the file's absolute path without symbolic links. It creates the folder.
func (s *BoltStore) Place(dataDir string) (string, error) {
	path := s.path
	if path == "" {
		path = filepath.Join(dataDir, databaseName)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dataDirMode); err != nil {
		return "", err
	}
	if whole, err := filepath.EvalSymlinks(path); err == nil {
		return whole, nil
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// Settings are the options beside the path.
func (s *BoltStore) Settings() string { return fmt.Sprintf("min_free=%d", s.minFree) }

// Open opens or creates the file.
func (s *BoltStore) Open(ctx context.Context, place string, o StoreOptions) (Store, error) {
	return boltstore.Open(ctx, boltstore.Options{
		Path: place, MasterKey: o.MasterKey, World: o.World, Logger: o.Logger, MinFree: s.minFree,
	})
}

var (
	_ StoreModule           = (*BoltStore)(nil)
	_ caddy.Provisioner     = (*BoltStore)(nil)
	_ caddyfile.Unmarshaler = (*BoltStore)(nil)
)
