package caddymodule

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/pgstore"
)

// PostgresStore keeps everything in one PostgreSQL database, for any number of purser processes.
type PostgresStore struct {
	// URL is a reference to the address of the database: postgres://USER:PASSWORD@HOST:5432/DATABASE.
	// On another machine the database must prove its name, unless sslmode says another thing.
	// Default: {env.DATABASE_URL}; it must be set.
	URL string `json:"url,omitempty"`
	// URLFile is its file. Default: {env.DATABASE_URL_FILE}.
	URLFile string `json:"url_file,omitempty"`

	url string
}

// postgresPatience bounds the wait of a start for a database that starts as well.
const postgresPatience = 30 * time.Second

var databaseURLOption = setting.New("store postgres url", "DATABASE_URL", "")

// CaddyModule returns the Caddy module information.
func (*PostgresStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: storeNamespace + ".postgres", New: func() caddy.Module { return new(PostgresStore) }}
}

// Provision resolves the options.
func (s *PostgresStore) Provision(caddy.Context) (err error) {
	if s.url, err = databaseURLOption.Secret(s.URL, s.URLFile); err != nil {
		return err
	}
	if s.url == "" {
		return databaseURLOption.Errorf("is not set: store postgres needs the address of a database")
	}
	_, err = s.Place("")
	return err
}

// UnmarshalCaddyfile reads:
//
//	store postgres {
//	    url      <reference>
//	    url_file <file>
//	}
func (s *PostgresStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	err := parseModule(d, s, nil)
	return orWrapped(d, err, databaseURLOption.IsReference(s.URL))
}

// Place is the address without a password.
func (s *PostgresStore) Place(string) (string, error) {
	place, err := pgstore.Place(s.url)
	if err != nil {
		return "", databaseURLOption.Errorf("%w", err)
	}
	return place, nil
}

// Settings tells one password from another: a reload with another one fails, because the connections
// that are open have the former.
func (s *PostgresStore) Settings() string { return fmt.Sprintf("url=%x", sha256.Sum256([]byte(s.url))) }

// Open connects to the database, which may be starting.
func (s *PostgresStore) Open(ctx context.Context, place string, o StoreOptions) (Store, error) {
	patience := postgresPatience
	if o.Once {
		patience = 0
	}
	db, err := pgstore.Connect(ctx, pgstore.Options{URL: s.url, MasterKey: o.MasterKey, World: o.World, Dir: o.Dir, Logger: o.Logger}, patience)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return db, nil
}

var (
	_ StoreModule           = (*PostgresStore)(nil)
	_ caddy.Provisioner     = (*PostgresStore)(nil)
	_ caddyfile.Unmarshaler = (*PostgresStore)(nil)
)
