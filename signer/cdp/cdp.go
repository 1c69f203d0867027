// Package cdp implements pay.Wallets with server wallets of the Coinbase Developer Platform: each
// wallet is an account of its own there, and its key never leaves it. The package also makes the
// tokens of CDP's facilitator.
package cdp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer/remote"
	"github.com/purserpay/purser/x402"
)

const name = "cdp"

const (
	// DefaultURL is the base address of CDP's API.
	DefaultURL = "https://api.cdp.coinbase.com/platform"
	// FacilitatorHost is the host of CDP's facilitator, whose calls need tokens of CDP.
	FacilitatorHost = "api.cdp.coinbase.com"

	accountsPath = "v2/evm/accounts"
)

// Options configures a Signer.
type Options struct {
	// URL holds the base address. Default: DefaultURL.
	URL string
	// Credentials must have a wallet secret.
	Credentials *Credentials
	// Timeout bounds a call with all its tries. Default: remote.DefaultTimeout.
	Timeout   time.Duration
	Transport http.RoundTripper // default: one that ignores the proxy variables of the environment
	Logger    *slog.Logger      // default: none
}

// Signer makes accounts at CDP and has them sign. It is safe for concurrent use.
type Signer struct {
	remote      *remote.Client
	credentials *Credentials
}

var (
	_ pay.Wallets = (*Signer)(nil)
	_ pay.Probing = (*Signer)(nil)
)

// New returns a Signer, or an error about the options.
func New(o Options) (*Signer, error) {
	if o.Credentials.wallet == nil {
		return nil, errors.New(WalletSecretVariable + " is not set")
	}
	c, err := remote.New(remote.Options{
		Provider: name, URL: cmp.Or(o.URL, DefaultURL), Setting: "PURSER_CDP_URL", Timeout: o.Timeout, Secrets: o.Credentials.material,
		Transport: o.Transport, Logger: o.Logger, Clock: o.Credentials.now,
	})
	if err != nil {
		return nil, err
	}
	return &Signer{remote: c, credentials: o.Credentials}, nil
}

// Name returns "cdp".
func (*Signer) Name() string { return name }

// Close ends idle connections.
func (s *Signer) Close() { s.remote.Close() }

// Create makes an account whose name is the wallet's id. The wallet is named "cdp_" + address. A try
// that is repeated makes no second account.
func (s *Signer) Create(ctx context.Context, id, _ string) (pay.ProvidedWallet, error) {
	var made struct {
		Address *x402.Address `json:"address"`
	}
	header := http.Header{"X-Idempotency-Key": {idempotencyKey(id)}}
	got, err := s.post(ctx, accountsPath, header, map[string]string{"name": id}, http.StatusCreated)
	if err != nil {
		return pay.ProvidedWallet{}, err
	}
	if err := json.Unmarshal(got.Body, &made); err != nil || made.Address == nil || made.Address.IsZero() || made.Address.Foreign() {
		return pay.ProvidedWallet{}, s.remote.Fault(got, pay.SignerUnreadable, "answered with something else than an account")
	}
	return pay.ProvidedWallet{ProviderID: name + "_" + made.Address.String(), Address: made.Address}, nil
}

// idempotencyKey derives the key of a creation from the wallet's id, in the form of a random UUID,
// which CDP recommends.
func idempotencyKey(id string) string {
	return uuid.NewHash(sha256.New(), uuid.NameSpaceURL, []byte("purser wallet "+id), 4).String()
}

// Sign has the wallet's account sign the typed data of the message. An error is pay.ErrNoAddress or a
// *pay.SignerError. Package pay recovers the signer.
func (s *Signer) Sign(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	if err := s.remote.CheckWallet(w, m); err != nil {
		return x402.Signature{}, err
	}
	var signed struct {
		Signature string `json:"signature"`
	}
	got, err := s.post(ctx, accountsPath+"/"+w.Address.String()+"/sign/typed-data", http.Header{}, m.TypedData(), http.StatusOK)
	if err != nil {
		return x402.Signature{}, err
	}
	if err := json.Unmarshal(got.Body, &signed); err != nil {
		return x402.Signature{}, s.remote.Fault(got, pay.SignerUnreadable, "answered with something else than a signature")
	}
	signature, err := x402.ParseForeignSignature(signed.Signature)
	if err != nil {
		return x402.Signature{}, s.remote.Fault(got, pay.SignerUnreadable, "gave a wrong signature: %s", err)
	}
	return signature, nil
}

// Probe lists an account, which needs the API key and no wallet secret.
func (s *Signer) Probe(ctx context.Context) error {
	got, err := s.remote.Call(ctx, remote.Request{Method: http.MethodGet, Path: accountsPath, Header: func() (http.Header, error) {
		return s.authorized(http.MethodGet, accountsPath, http.Header{})
	}})
	if err != nil {
		return err
	}
	return s.expect(got, http.StatusOK)
}

// post calls an endpoint that uses a wallet's key.
func (s *Signer) post(ctx context.Context, path string, header http.Header, body any, want int) (remote.Answer, error) {
	text, err := encode(body)
	if err != nil {
		return remote.Answer{}, fmt.Errorf("encoding a request to CDP: %w", err)
	}
	got, err := s.remote.Call(ctx, remote.Request{Method: http.MethodPost, Path: path, Body: text, Header: func() (http.Header, error) {
		token, err := s.credentials.Wallet(http.MethodPost, s.remote.Target(path), text)
		if err != nil {
			return nil, err
		}
		fresh, err := s.authorized(http.MethodPost, path, header)
		if err == nil {
			fresh.Set("X-Wallet-Auth", token)
		}
		return fresh, err
	}})
	if err == nil {
		err = s.expect(got, want)
	}
	return got, err
}

// authorized returns the header with a token of the API key.
func (s *Signer) authorized(method, path string, header http.Header) (http.Header, error) {
	token, err := s.credentials.Bearer(method, s.remote.Target(path))
	if err != nil {
		return nil, err
	}
	header = header.Clone()
	header.Set("Authorization", "Bearer "+token)
	return header, nil
}

// expect returns the error that an answer with another status tells of.
func (s *Signer) expect(got remote.Answer, want int) error {
	if got.Status == want {
		return nil
	}
	var told struct {
		Type        string `json:"errorType"`
		Message     string `json:"errorMessage"`
		Correlation string `json:"correlationId"`
	}
	_ = json.Unmarshal(got.Body, &told) // a proxy's answer has none of it
	message := told.Type
	if told.Message != "" {
		message += ", " + told.Message
	}
	if told.Correlation != "" {
		message += " (correlation " + told.Correlation + ")"
	}
	return s.remote.Refused(got, message)
}
