package sandbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/identity"
	"github.com/purserpay/purser/sandbox/loopback"
	"github.com/purserpay/purser/sandbox/mppshop"
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

// Offsets of a world's ports from Options.Port, which purser itself uses. Offset 4 is for purser's
// reverse proxy, and offset 5 for its metrics.
const (
	sellerOffset      = 1
	facilitatorOffset = 2
	rpcOffset         = 3
	MetricsOffset     = 5
	sellerTLSOffset   = 6
	identityOffset    = 7
	LastOffset        = identityOffset
)

// mppPath begins the paths that sell by MPP.
const mppPath = "/mpp"

// closeTime is the time that requests have to finish when the world ends.
const closeTime = 2 * time.Second

// Options configures a World. The zero value works.
type Options struct {
	// Port is purser's port. The world uses ports after it: seller +1, facilitator +2, JSON-RPC +3,
	// seller over TLS +6, identity provider +7. Default: free ports.
	Port int
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
	// PayTo receives the sellers' money. It has no known private key.
	PayTo x402.Address
	// User is the user that the identity provider signs in.
	User identity.User
	// MPP is the seller of MPP, at MPPURL.
	MPP *mppshop.Shop

	facilitator, seller, sellerTLS, identity *loopback.Server
	dir                                      string // of the file ca.pem
	transport                                *http.Transport
	cancel                                   context.CancelFunc

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
	w := &World{
		PayTo:  x402.EVMAddress([20]byte(crypto.Keccak256([]byte("purser sandbox seller"))[12:])),
		cancel: cancel, transport: http.DefaultTransport.(*http.Transport).Clone(),
		User: identity.User{Subject: "sandbox", Name: "Sandbox user", Email: "user@purser.test"},
	}
	if err := w.start(ctx, o); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *World) start(ctx context.Context, o Options) (err error) {
	root, certificate, err := newCertificate()
	if err != nil {
		return err
	}
	if w.dir, err = os.MkdirTemp("", "purser-world-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	if err := os.WriteFile(w.CA(), root, 0o600); err != nil {
		return fmt.Errorf("write the authority's certificate: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(root)
	w.transport.Proxy = nil // the environment may name purser as proxy
	w.transport.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	w.transport.DialContext = dial
	w.transport.MaxIdleConnsPerHost = 64 // the seller calls one host, its facilitator

	port := func(offset int) int {
		if o.Port == 0 {
			return 0
		}
		return o.Port + offset
	}
	serve := func(name string, offset int, handler http.Handler, certificate *tls.Certificate) (*loopback.Server, error) {
		options := loopback.Options{Name: name, Port: port(offset), Certificate: certificate, Logger: o.Logger}
		return loopback.Serve(ctx, options, handler)
	}
	if w.Chain, err = evm.Start(ctx, evm.Options{Port: port(rpcOffset), Now: o.Now}); err != nil {
		return err
	}
	if w.facilitator, err = serve("facilitator", facilitatorOffset, honest.NewFacilitator(w.Chain, o.Now), nil); err != nil {
		return err
	}
	provider, err := identity.New(identity.Options{ClientID: ClientID, User: w.User, PublicURL: o.PublicURL, Now: o.Now})
	if err != nil {
		return err
	}
	if w.identity, err = serve("identity provider", identityOffset, provider, nil); err != nil {
		return err
	}
	provider.At(w.IdentityURL())
	seller := NewSeller(SellerOptions{
		Facilitator: w.FacilitatorURL(), PayTo: w.PayTo, Settled: w.Settled, Client: w.Client(), Logger: o.Logger,
	})
	w.MPP = mppshop.New(mppshop.Options{
		Till: honest.Till{Facilitator: w.FacilitatorURL(), Client: w.Client()}, PayTo: w.PayTo, Realm: SellerName, Now: o.Now, Logger: o.Logger,
	})
	goods := http.NewServeMux()
	goods.Handle("/", seller)
	goods.Handle(mppPath+"/", http.StripPrefix(mppPath, w.MPP))
	if w.seller, err = serve("seller", sellerOffset, faucet(w.give, root, goods), nil); err != nil {
		return err
	}
	w.sellerTLS, err = serve("seller over TLS", sellerTLSOffset, goods, &certificate)
	return err
}

// Close stops all parts and removes the files of Start. Requests have two seconds to finish. Later
// calls return the first result. A nil world is closed already.
func (w *World) Close() error {
	if w == nil {
		return nil
	}
	w.closing.Do(func() { w.closeErr = w.close() })
	return w.closeErr
}

func (w *World) close() error {
	// These are first, because they need the facilitator, which needs the chain.
	first := []*loopback.Server{w.seller, w.sellerTLS, w.identity}
	errs := make([]error, len(first))
	var ends sync.WaitGroup
	for i, s := range first {
		ends.Go(func() { errs[i] = s.Shutdown(closeTime) })
	}
	ends.Wait()
	if w.MPP != nil {
		w.MPP.Close()
	}
	errs = append(errs, w.facilitator.Shutdown(closeTime))
	w.cancel()
	w.transport.CloseIdleConnections()
	if w.Chain != nil {
		errs = append(errs, w.Chain.Close())
	}
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

// SellerURL returns the seller's URL by name, for programs behind purser.
func (w *World) SellerURL() string { return w.seller.Origin("http", SellerName) }

// SellerDirectURL returns the seller's URL by address, for programs on this machine.
func (w *World) SellerDirectURL() string { return w.seller.Origin("http", SellerIP) }

// SellerTLSURL returns the seller's https URL by name. The root in CA signed its certificate, which
// is valid for 127.0.0.1 too.
func (w *World) SellerTLSURL() string { return w.sellerTLS.Origin("https", SellerTLSName) }

// MPPURL returns the URL of the seller of MPP by name, for programs behind purser. GET MPPURL()+"/" lists how it can
// behave.
func (w *World) MPPURL() string { return w.SellerURL() + mppPath }

// MPPTLSURL returns the same over https.
func (w *World) MPPTLSURL() string { return w.SellerTLSURL() + mppPath }

// IdentityURL returns the issuer of the identity provider. It signs in every visitor as User.
func (w *World) IdentityURL() string { return w.identity.URL() }

// FacilitatorURL returns the facilitator's base URL.
func (w *World) FacilitatorURL() string { return w.facilitator.URL() }

// RPCURL returns the URL of the chain's JSON-RPC.
func (w *World) RPCURL() string { return w.Chain.RPCURL() }

// CA returns the path of the PEM file with the root that clients of SellerTLSURL must trust.
func (w *World) CA() string { return filepath.Join(w.dir, "ca.pem") }

// Token returns the address of the token.
func (w *World) Token() x402.Address { return x402.EVMAddress(w.Chain.TokenAddress()) }

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
func (w *World) Fund(ctx context.Context, to x402.Address, amount money.Amount) error {
	return w.Chain.Fund(ctx, common.Address(to.EVM()), amount.Big())
}

// gas is the ether that a wallet gets for the few transactions that purser sends itself: 0.01.
const gas = 1e16

// FundGas gives an account some ether. It returns once it is there.
func (w *World) FundGas(ctx context.Context, to x402.Address) error {
	return w.Chain.FundETH(ctx, common.Address(to.EVM()), big.NewInt(gas))
}

// give is Fund with some ether.
func (w *World) give(ctx context.Context, to x402.Address, amount money.Amount) error {
	return errors.Join(w.Fund(ctx, to, amount), w.FundGas(ctx, to))
}

// Balance returns the token balance of an account, in the token's smallest unit.
func (w *World) Balance(ctx context.Context, owner x402.Address) (money.Amount, error) {
	balance, err := w.Chain.Balance(ctx, common.Address(owner.EVM()))
	if err != nil {
		return money.Amount{}, err
	}
	amount, _ := money.FromBig(balance) // the chain's numbers always fit
	return amount, nil
}

// Settled returns the transaction that made exactly the authorization's transfer, or "".
func (w *World) Settled(ctx context.Context, a x402.Authorization) (string, error) {
	used, err := w.Chain.AuthorizationsUsed(ctx, common.Address(a.From.EVM()))
	if err != nil {
		return "", err
	}
	from, to := common.Address(a.From.EVM()), common.Address(a.To.EVM())
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
