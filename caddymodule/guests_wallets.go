package caddymodule

import (
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer"
)

// LocalWallets makes wallets whose keys are kept, encrypted, in purser's own store.
type LocalWallets struct{}

// CaddyModule returns the Caddy module information.
func (*LocalWallets) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: walletsNamespace + ".local", New: func() caddy.Module { return new(LocalWallets) }}
}

// UnmarshalCaddyfile reads `wallets local`, which has no options.
func (w *LocalWallets) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseModule(d, w, nil)
}

// Wallets returns the provider.
func (*LocalWallets) Wallets(book pay.WalletBook, _ *slog.Logger) (pay.Wallets, error) {
	return signer.NewLocal(book), nil
}

// NoWallets makes wallets without an address, which cannot pay.
type NoWallets struct{}

// CaddyModule returns the Caddy module information.
func (*NoWallets) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: walletsNamespace + ".none", New: func() caddy.Module { return new(NoWallets) }}
}

// UnmarshalCaddyfile reads `wallets none`, which has no options.
func (w *NoWallets) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return parseModule(d, w, nil) }

// Wallets returns the provider.
func (*NoWallets) Wallets(pay.WalletBook, *slog.Logger) (pay.Wallets, error) {
	return signer.None{}, nil
}

var (
	_ WalletsModule         = (*LocalWallets)(nil)
	_ WalletsModule         = (*NoWallets)(nil)
	_ caddyfile.Unmarshaler = (*LocalWallets)(nil)
	_ caddyfile.Unmarshaler = (*NoWallets)(nil)
)
