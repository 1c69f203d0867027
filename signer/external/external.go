// Package external implements pay.Wallets with a signer that speaks Ethereum's JSON-RPC, such as
// Web3Signer, a bridge to Clef or a hardware module, or a node with accounts. It lends the signer's
// accounts to wallets, each to one, and never has a key.
package external

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/endpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer/remote"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

const name = "external"

// Lent is the part of pay.Store that knows which accounts are lent.
type Lent interface {
	// WalletByAddress finds the wallet of an address, deleted or not: pay.ErrWalletNotFound.
	WalletByAddress(ctx context.Context, address x402.Address) (pay.Wallet, error)
}

// Options configures a Signer.
type Options struct {
	// URL holds the JSON-RPC address. Errors and logs leave out every part that may be a key.
	URL string
	// Key, when set, is sent to the signer as a Bearer token.
	Key string
	// Timeout bounds a call with all its tries. Default: remote.DefaultTimeout.
	Timeout time.Duration
	// Lent tells which accounts are taken.
	Lent      Lent
	Transport http.RoundTripper // default: one that ignores the proxy variables of the environment
	Logger    *slog.Logger      // default: none
}

// Signer lends the accounts of a JSON-RPC signer, and has them sign. It is safe for concurrent use.
type Signer struct {
	remote *remote.Client
	header http.Header
	lent   Lent
	// plain is set once the signer has shown that it has eth_signTypedData only.
	plain atomic.Bool
}

var (
	_ pay.Wallets   = (*Signer)(nil)
	_ pay.Probing   = (*Signer)(nil)
	_ pay.SigningIn = (*Signer)(nil)

	_ treasury.TransactionSigning = (*Signer)(nil)
)

// New returns a Signer, or an error about the options. Errors name the setting at fault and never
// repeat its value.
func New(o Options) (*Signer, error) {
	c, err := remote.New(remote.Options{
		Provider: name, URL: o.URL, Setting: "PURSER_SIGNER_URL", Timeout: o.Timeout, Secrets: []string{o.Key},
		Transport: o.Transport, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &Signer{remote: c, lent: o.Lent, header: endpoint.Repeatable(http.Header{})} // every call may be made twice
	if o.Key != "" {
		if c.HasUser() {
			return nil, errors.New("PURSER_SIGNER_URL has a user and PURSER_SIGNER_KEY is set: only one can be sent")
		}
		if !endpoint.Sendable(o.Key) {
			return nil, errors.New("PURSER_SIGNER_KEY: only visible ASCII characters can be sent")
		}
		s.header.Set("Authorization", "Bearer "+o.Key)
	}
	return s, nil
}

// Name returns "external".
func (*Signer) Name() string { return name }

// Close ends idle connections.
func (s *Signer) Close() { s.remote.Close() }

// Create lends an account that no wallet has. The wallet is named "external_" + address. It fails with
// a *pay.SignerError or an error of the store.
func (s *Signer) Create(ctx context.Context, _, _ string) (pay.ProvidedWallet, error) {
	accounts, err := s.accounts(ctx)
	if err != nil {
		return pay.ProvidedWallet{}, err
	}
	// Creations at the same time begin at different accounts, so that few choose the same one.
	start := rand.IntN(max(len(accounts), 1)) //nolint:gosec // no secret
	for i := range accounts {
		account := accounts[(start+i)%len(accounts)]
		_, err := s.lent.WalletByAddress(ctx, account)
		switch {
		case errors.Is(err, pay.ErrWalletNotFound):
			return pay.ProvidedWallet{ProviderID: name + "_" + account.String(), Address: &account}, nil
		case err != nil:
			return pay.ProvidedWallet{}, fmt.Errorf("looking for the wallet of an account: %w", err)
		}
	}
	return pay.ProvidedWallet{}, s.remote.Fault(remote.Answer{}, pay.SignerNoAccount,
		"has no free account: each of its %d is lent to a wallet, also those of deleted ones; add an account there", len(accounts))
}

// Sign has the wallet's account sign the typed data of the message. An error is pay.ErrNoAddress or a
// *pay.SignerError. Package pay recovers the signer.
func (s *Signer) Sign(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	if err := s.remote.CheckWallet(w, m); err != nil {
		return x402.Signature{}, err
	}
	data, err := json.Marshal(m.TypedData())
	if err != nil {
		return x402.Signature{}, fmt.Errorf("encoding typed data: %w", err)
	}
	// As text: every signer reads that, some read no object.
	got, err := s.signTypedData(ctx, w.Address.String(), string(data))
	if err != nil {
		return x402.Signature{}, err
	}
	return s.signatureIn(got)
}

// SignIn has the wallet's account sign the text of the sign-in by personal_sign, which adds the prefix
// of EIP-191. Web3Signer does not know it: that is a *pay.SignerError, as for Sign.
func (s *Signer) SignIn(ctx context.Context, w pay.Wallet, m x402.SignIn) (x402.Signature, error) {
	if err := s.remote.CheckWallet(w, pay.Message{From: m.Address()}); err != nil {
		return x402.Signature{}, err
	}
	got, err := s.call(ctx, "personal_sign", "0x"+hex.EncodeToString([]byte(m.Text())), w.Address.String())
	if err != nil {
		return x402.Signature{}, err
	}
	return s.signatureIn(got)
}

// signatureIn reads the result of a call that signs.
func (s *Signer) signatureIn(got result) (x402.Signature, error) {
	var text string
	if err := json.Unmarshal(got.result, &text); err != nil {
		return x402.Signature{}, s.remote.Fault(got.Answer, pay.SignerUnreadable, "answered with something else than a signature")
	}
	signature, err := x402.ParseForeignSignature(text)
	if err != nil {
		return x402.Signature{}, s.remote.Fault(got.Answer, pay.SignerUnreadable, "gave a wrong signature: %s", err)
	}
	return signature, nil
}

// signTypedData asks by the name that most signers know, and by that of Web3Signer if it is unknown.
func (s *Signer) signTypedData(ctx context.Context, address, data string) (result, error) {
	const common, plain = "eth_signTypedData_v4", "eth_signTypedData"
	if s.plain.Load() {
		return s.call(ctx, plain, address, data)
	}
	got, err := s.call(ctx, common, address, data)
	if !got.unknownMethod {
		return got, err
	}
	second, secondErr := s.call(ctx, plain, address, data)
	if second.unknownMethod {
		return got, err
	}
	s.plain.Store(true)
	return second, secondErr
}

// Probe asks for the accounts.
func (s *Signer) Probe(ctx context.Context) error {
	accounts, err := s.accounts(ctx)
	if err == nil && len(accounts) == 0 {
		err = s.remote.Fault(remote.Answer{}, pay.SignerNoAccount, "has no accounts")
	}
	return err
}

func (s *Signer) accounts(ctx context.Context) ([]x402.Address, error) {
	got, err := s.call(ctx, "eth_accounts")
	if err != nil {
		return nil, err
	}
	var accounts []x402.Address
	if err := json.Unmarshal(got.result, &accounts); err != nil || slices.ContainsFunc(accounts, x402.Address.Foreign) {
		return nil, s.remote.Fault(got.Answer, pay.SignerUnreadable, "answered eth_accounts with something else than addresses")
	}
	return accounts, nil
}

// result is the result of a JSON-RPC call.
type result struct {
	remote.Answer
	result        json.RawMessage
	unknownMethod bool // with an error
}

// JSON-RPC's code of an unknown method.
const codeUnknownMethod = -32601

// call makes one JSON-RPC call. An error is a *pay.SignerError.
func (s *Signer) call(ctx context.Context, method string, params ...any) (result, error) {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Method  string `json:"method"`
		Params  []any  `json:"params"`
	}{"2.0", 1, method, params})
	if err != nil {
		return result{}, fmt.Errorf("encoding %s: %w", method, err)
	}
	got, err := s.remote.Call(ctx, remote.Request{
		Method: http.MethodPost, Body: body, Header: func() (http.Header, error) { return s.header, nil },
	})
	if err != nil {
		return result{}, err
	}
	var answer struct {
		ID     json.RawMessage
		Result json.RawMessage
		Error  *struct {
			Code    int64
			Message string
		}
	}
	switch err := json.Unmarshal(got.Body, &answer); {
	case err == nil && answer.Error != nil: // its status may be any
		e := answer.Error
		if e.Code == codeUnknownMethod {
			return result{Answer: got, unknownMethod: true}, s.remote.Fault(got, pay.SignerRefused, "does not know %s", method)
		}
		return result{}, s.remote.Fault(got, pay.SignerRefused, "refuses %s: error %d: %s", method, e.Code, s.remote.Readable(e.Message))
	case got.Status != http.StatusOK:
		return result{}, s.remote.Refused(got, "")
	case err != nil || answer.Result == nil:
		return result{}, s.remote.Fault(got, pay.SignerUnreadable, "answered %s with something else than JSON-RPC", method)
	case string(answer.ID) != "1":
		return result{}, s.remote.Fault(got, pay.SignerUnreadable, "answered %s as another call", method)
	}
	return result{Answer: got, result: answer.Result}, nil
}
