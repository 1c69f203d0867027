package caddymodule

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer/cdp"
	"github.com/purserpay/purser/signer/external"
)

// ExternalWallets lends the accounts of a signer that speaks Ethereum's JSON-RPC, such as Web3Signer
// or a node. Their keys stay there.
type ExternalWallets struct {
	// URL of the signer's JSON-RPC: eth_accounts and eth_signTypedData_v4, or eth_signTypedData.
	// Default: {env.PURSER_SIGNER_URL}; it must be set.
	URL string `json:"url,omitempty"`
	// URLFile is the file of the URL, which may hold a key. Default: {env.PURSER_SIGNER_URL_FILE}.
	URLFile string `json:"url_file,omitempty"`
	// Key is a reference to a token, which is sent as Bearer. Default: {env.PURSER_SIGNER_KEY}, else
	// none is sent.
	Key string `json:"key,omitempty"`
	// KeyFile is the file of the token. Default: {env.PURSER_SIGNER_KEY_FILE}.
	KeyFile string `json:"key_file,omitempty"`
	// Timeout bounds a signature with all its tries, such as "10s". Default:
	// {env.PURSER_SIGNER_TIMEOUT}, else 10 s.
	Timeout string `json:"timeout,omitempty"`

	url, key string
	timeout  time.Duration
}

// CaddyModule returns the Caddy module information.
func (*ExternalWallets) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: walletsNamespace + ".external", New: func() caddy.Module { return new(ExternalWallets) }}
}

var (
	signerURLOption = setting.New("wallets external url", "PURSER_SIGNER_URL", "")
	signerKeyOption = setting.New("wallets external key", "PURSER_SIGNER_KEY", "")
)

// Provision resolves and checks the options.
func (w *ExternalWallets) Provision(caddy.Context) (err error) {
	w.url, err = signerURLOption.Contents(signerURLOption.ValueOrFile(w.URL, w.URLFile))
	err = cmp.Or(err, setting.Set(&w.timeout, setting.New("wallets external timeout", "PURSER_SIGNER_TIMEOUT", "").Duration, w.Timeout))
	if err != nil {
		return err
	}
	if w.url == "" {
		return signerURLOption.Errorf("is not set: wallets external needs the address of a signer")
	}
	if w.key, err = signerKeyOption.Secret(w.Key, w.KeyFile); err != nil {
		return err
	}
	_, err = w.Wallets(nil, slog.New(slog.DiscardHandler))
	return err
}

// UnmarshalCaddyfile reads:
//
//	wallets external {
//	    url      <url>
//	    url_file <file>
//	    key      <reference>
//	    key_file <file>
//	    timeout  <duration>
//	}
func (w *ExternalWallets) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	err := parseModule(d, w, nil)
	return orWrapped(d, err, signerKeyOption.IsReference(w.Key))
}

// Wallets returns the provider.
func (w *ExternalWallets) Wallets(book pay.WalletBook, log *slog.Logger) (pay.Wallets, error) {
	return external.New(external.Options{URL: w.url, Key: w.key, Timeout: w.timeout, Lent: book, Logger: log})
}

// CDPWallets makes wallets at the Coinbase Developer Platform. Their keys stay there.
type CDPWallets struct {
	// URL is the base address of the API. Default: {env.PURSER_CDP_URL}, else
	// https://api.cdp.coinbase.com/platform.
	URL string `json:"url,omitempty"`
	// Timeout bounds a signature with all its tries, such as "10s". Default:
	// {env.PURSER_SIGNER_TIMEOUT}, else 10 s.
	Timeout string `json:"timeout,omitempty"`
	// WalletSecret is a reference to the project's wallet secret. Default: {env.CDP_WALLET_SECRET}.
	WalletSecret string `json:"wallet_secret,omitempty"`
	// WalletSecretFile is its file. Default: {env.CDP_WALLET_SECRET_FILE}.
	WalletSecretFile string `json:"wallet_secret_file,omitempty"`
	// APIKeyID is the id of the API key. Default: {env.CDP_API_KEY_ID}.
	APIKeyID string `json:"api_key_id,omitempty"`
	// APIKeySecret is a reference to the API key's secret: Ed25519 in base64, or an EC key in PEM.
	// Default: {env.CDP_API_KEY_SECRET}.
	APIKeySecret string `json:"api_key_secret,omitempty"`
	// APIKeySecretFile is its file. Default: {env.CDP_API_KEY_SECRET_FILE}.
	APIKeySecretFile string `json:"api_key_secret_file,omitempty"`

	url         string
	timeout     time.Duration
	credentials *cdp.Credentials
}

var (
	cdpKeyIDOption        = setting.New("wallets cdp api_key_id", "CDP_API_KEY_ID", "")
	cdpKeySecretOption    = setting.New("wallets cdp api_key_secret", "CDP_API_KEY_SECRET", "")
	cdpWalletSecretOption = setting.New("wallets cdp wallet_secret", "CDP_WALLET_SECRET", "")
)

// cdpCredentials resolves an API key of CDP, with a wallet secret or "".
func cdpCredentials(keyID, keySecret, keySecretFile, walletSecret string) (*cdp.Credentials, error) {
	id, err := cdpKeyIDOption.Value(keyID)
	if err != nil {
		return nil, err
	}
	secret, err := cdpKeySecretOption.Secret(keySecret, keySecretFile)
	if err != nil {
		return nil, err
	}
	c, err := cdp.NewCredentials(id, secret, walletSecret, nil)
	if err != nil {
		return nil, fmt.Errorf("purser: %w", err)
	}
	return c, nil
}

// CaddyModule returns the Caddy module information.
func (*CDPWallets) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: walletsNamespace + ".cdp", New: func() caddy.Module { return new(CDPWallets) }}
}

// Provision resolves and checks the options.
func (w *CDPWallets) Provision(caddy.Context) (err error) {
	err = cmp.Or(
		setting.Set(&w.url, setting.New("wallets cdp url", "PURSER_CDP_URL", cdp.DefaultURL).URL, w.URL),
		setting.Set(&w.timeout, setting.New("wallets cdp timeout", "PURSER_SIGNER_TIMEOUT", "").Duration, w.Timeout),
	)
	if err != nil {
		return err
	}
	secret, err := cdpWalletSecretOption.Secret(w.WalletSecret, w.WalletSecretFile)
	if err != nil {
		return err
	}
	if w.credentials, err = cdpCredentials(w.APIKeyID, w.APIKeySecret, w.APIKeySecretFile, secret); err != nil {
		return err
	}
	_, err = w.Wallets(nil, slog.New(slog.DiscardHandler))
	return err
}

// UnmarshalCaddyfile reads:
//
//	wallets cdp {
//	    url                 <url>
//	    api_key_id          <id>
//	    api_key_secret      <reference>
//	    api_key_secret_file <file>
//	    wallet_secret       <reference>
//	    wallet_secret_file  <file>
//	    timeout             <duration>
//	}
func (w *CDPWallets) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	err := parseModule(d, w, nil)
	return orWrapped(d, err, cmp.Or(cdpKeySecretOption.IsReference(w.APIKeySecret), cdpWalletSecretOption.IsReference(w.WalletSecret)))
}

// Wallets returns the provider.
func (w *CDPWallets) Wallets(_ pay.WalletBook, log *slog.Logger) (pay.Wallets, error) {
	return cdp.New(cdp.Options{URL: w.url, Credentials: w.credentials, Timeout: w.timeout, Logger: log})
}

var (
	_ WalletsModule         = (*ExternalWallets)(nil)
	_ WalletsModule         = (*CDPWallets)(nil)
	_ caddy.Provisioner     = (*ExternalWallets)(nil)
	_ caddy.Provisioner     = (*CDPWallets)(nil)
	_ caddyfile.Unmarshaler = (*ExternalWallets)(nil)
	_ caddyfile.Unmarshaler = (*CDPWallets)(nil)
)
