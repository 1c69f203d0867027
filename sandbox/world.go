package sandbox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/identity"
	"github.com/purserpay/purser/x402"
)

// Names of the sellers. Only purser's dialer and World.Client resolve them.
const (
	SellerName    = "api.purser.test"
	SellerTLSName = "tls.purser.test"
	// SellerIP is the address of both sellers.
	SellerIP = "127.0.0.1"
)

// ClientID is purser's client id at the identity provider.
const ClientID = "purser-sandbox"

// caFile names the file with the root that signed the seller's certificate.
const caFile = "ca.pem"

// Options configures a World. The zero value works.
type Options struct {
	// Port is purser's port. The world uses ports after it: seller +1, facilitator +2, JSON-RPC +3,
	// seller over TLS +6, identity provider +7. Default: free ports.
	Port int
	// DataDir is an existing folder for the file ca.pem, which Close removes. Default: a temporary
	// folder, which Close removes too.
	DataDir string
	// PayTo receives the sellers' money. Default: an address without a known private key.
	PayTo x402.Address
	// PublicURL is purser's address for people, if that is not on loopback. The dashboard's sign-in
	// may return there.
	PublicURL string
	// Now is the clock of chain and facilitator; see evm.Options. Default: time.Now.
	Now func() time.Time
	// Logger gets failures of the seller. Default: none.
	Logger *slog.Logger
}

// World is a running sandbox.
type World struct {
	// Chain holds the money.
	Chain *evm.Chain
	// PayTo receives the sellers' money.
	PayTo x402.Address

	// User is the user that the identity provider signs in.
	User identity.User

	facilitator, seller, sellerTLS *listener
	identity                       *listener
	authority                      *authority
	caPath                         string
	tempDir                        string // "" when the caller gave the folder
	transport                      *http.Transport
	cancel                         context.CancelFunc

	closing  sync.Once
	closeErr error
}

// Start starts all parts. When ctx ends, the chain stops. The caller must call Close in any case.
func Start(ctx context.Context, o Options) (*World, error) {
	if o.Port < 0 || o.Port > 65535-LastOffset {
		return nil, fmt.Errorf("port %d: it must be 0, or from 1 to %d", o.Port, 65535-LastOffset)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &World{PayTo: o.PayTo, cancel: cancel}
	if w.PayTo.IsZero() {
		w.PayTo = x402.Address(crypto.Keccak256([]byte("purser sandbox seller"))[12:])
	}
	if err := w.start(ctx, o); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *World) start(ctx context.Context, o Options) (err error) {
	if err := w.writeAuthority(o.DataDir); err != nil {
		return err
	}
	w.transport = http.DefaultTransport.(*http.Transport).Clone()
	w.transport.Proxy = nil // the environment may name purser as proxy
	w.transport.TLSClientConfig = &tls.Config{RootCAs: w.authority.pool(), MinVersion: tls.VersionTLS12}
	w.transport.DialContext = dial
	w.transport.MaxIdleConnsPerHost = 64 // the seller calls one host, its facilitator

	w.Chain, err = evm.Start(ctx, evm.Options{RPCAddress: address(o.Port, rpcOffset), Now: o.Now})
	if err != nil {
		return err
	}
	w.facilitator, err = listen(ctx, "facilitator", address(o.Port, facilitatorOffset), honest.NewFacilitator(w.Chain, o.Now), nil, o.Logger)
	if err != nil {
		return err
	}
	seller := NewSeller(SellerOptions{
		Facilitator: w.FacilitatorURL(), PayTo: w.PayTo, Settled: w.Settled, Client: w.Client(), Logger: o.Logger,
	})
	if err := w.startIdentity(ctx, o); err != nil {
		return err
	}
	if w.seller, err = listen(ctx, "seller", address(o.Port, sellerOffset), faucet(w.Fund, w.authority.pem(), seller), nil, o.Logger); err != nil {
		return err
	}
	w.sellerTLS, err = listen(ctx, "seller over TLS", address(o.Port, sellerTLSOffset), seller, &w.authority.leaf, o.Logger)
	return err
}

// startIdentity starts the identity provider.
func (w *World) startIdentity(ctx context.Context, o Options) (err error) {
	w.User = identity.User{Subject: "sandbox", Name: "Sandbox user", Email: "user@purser.test"}
	provider, err := identity.New(identity.Options{ClientID: ClientID, User: w.User, PublicURL: o.PublicURL, Now: o.Now})
	if err != nil {
		return err
	}
	if w.identity, err = listen(ctx, "identity provider", address(o.Port, identityOffset), provider, nil, o.Logger); err != nil {
		return err
	}
	provider.At(w.IdentityURL())
	return nil
}

// writeAuthority makes the certificates, and writes the root for clients.
func (w *World) writeAuthority(dir string) (err error) {
	if w.authority, err = newAuthority(SellerTLSName); err != nil {
		return err
	}
	if dir == "" {
		if w.tempDir, err = os.MkdirTemp("", "purser-world-"); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		dir = w.tempDir
	}
	path := filepath.Join(dir, caFile)
	if err := os.WriteFile(path, w.authority.pem(), 0o600); err != nil {
		return fmt.Errorf("write the authority's certificate: %w", err)
	}
	w.caPath = path
	return nil
}

// Close stops all parts and removes the files of Start. Requests have two seconds to finish. Later
// calls return the first result.
func (w *World) Close() error {
	w.closing.Do(func() { w.closeErr = w.close() })
	return w.closeErr
}

func (w *World) close() error {
	var errs []error
	var sellers [3]error
	var ends sync.WaitGroup
	// These are first, because they need the facilitator, which needs the chain.
	for i, l := range []*listener{w.seller, w.sellerTLS, w.identity} {
		if l != nil {
			ends.Go(func() { sellers[i] = l.close() })
		}
	}
	ends.Wait()
	errs = append(errs, sellers[:]...)
	if w.facilitator != nil {
		errs = append(errs, w.facilitator.close())
	}
	w.cancel()
	if w.transport != nil {
		w.transport.CloseIdleConnections()
	}
	if w.Chain != nil {
		errs = append(errs, w.Chain.Close())
	}
	switch {
	case w.tempDir != "":
		errs = append(errs, os.RemoveAll(w.tempDir))
	case w.caPath != "":
		errs = append(errs, os.Remove(w.caPath))
	}
	return errors.Join(errs...)
}

// SellerURL returns the seller's URL by name, for programs behind purser.
func (w *World) SellerURL() string { return w.seller.origin("http", SellerName) }

// SellerDirectURL returns the seller's URL by address, for programs on this machine.
func (w *World) SellerDirectURL() string { return w.seller.origin("http", SellerIP) }

// SellerTLSURL returns the seller's https URL by name. The root in CA signed its certificate, which
// is valid for 127.0.0.1 too.
func (w *World) SellerTLSURL() string { return w.sellerTLS.origin("https", SellerTLSName) }

// IdentityURL returns the issuer of the identity provider. It signs in every visitor as User.
func (w *World) IdentityURL() string { return w.identity.origin("http", "127.0.0.1") }

// FacilitatorURL returns the facilitator's base URL.
func (w *World) FacilitatorURL() string { return w.facilitator.origin("http", "127.0.0.1") }

// RPCURL returns the URL of the chain's JSON-RPC.
func (w *World) RPCURL() string { return w.Chain.RPCURL() }

// CA returns the path of the PEM file with the root that clients of SellerTLSURL must trust.
func (w *World) CA() string { return w.caPath }

// Token returns the address of the token.
func (w *World) Token() x402.Address { return x402.Address(w.Chain.TokenAddress()) }

// Client returns a client that resolves the sellers' names and trusts their authority. It does not
// pay.
func (w *World) Client() *http.Client { return &http.Client{Transport: w.transport} }

// dial connects to the sellers by their names.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil && (host == SellerName || host == SellerTLSName) {
		address = net.JoinHostPort(SellerIP, port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Fund mints tokens for an account, in the token's smallest unit. It returns once they are there.
func (w *World) Fund(ctx context.Context, to x402.Address, amount x402.Amount) error {
	return w.Chain.Fund(ctx, common.Address(to), amount.Big())
}

// Balance returns the token balance of an account, in the token's smallest unit.
func (w *World) Balance(ctx context.Context, owner x402.Address) (x402.Amount, error) {
	balance, err := w.Chain.Balance(ctx, common.Address(owner))
	if err != nil {
		return x402.Amount{}, err
	}
	amount, _ := x402.AmountFromBig(balance) // the chain's numbers always fit
	return amount, nil
}

// Settled returns the transaction that made exactly the authorization's transfer, or "".
func (w *World) Settled(ctx context.Context, a x402.Authorization) (string, error) {
	used, err := w.Chain.AuthorizationsUsed(ctx, common.Address(a.From))
	if err != nil {
		return "", err
	}
	from, to := common.Address(a.From), common.Address(a.To)
	for _, u := range used {
		if u.Nonce != a.Nonce {
			continue
		}
		moved, err := w.Chain.Transfers(ctx, &from, &to, 0)
		if err != nil {
			return "", err
		}
		for _, m := range moved {
			if m.Tx == u.Tx && m.Value.Cmp(a.Value.Big()) == 0 {
				return u.Tx, nil
			}
		}
	}
	return "", nil
}
