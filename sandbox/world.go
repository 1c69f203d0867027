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

// Names of the sellers. Nothing outside the sandbox resolves them: purser's dialer and World.Client do.
const (
	SellerName    = "api.purser.test"
	SellerTLSName = "tls.purser.test"
	// SellerIP is where both are.
	SellerIP = "127.0.0.1"
)

// ClientID is what the identity provider calls purser, a public client.
const ClientID = "purser-sandbox"

// caFile is the name of the file with the root that signed the seller's certificate.
const caFile = "ca.pem"

// Options say where a world is. The zero value works.
type Options struct {
	// Port is the one before the first port of the world: the seller listens on the next one, then facilitator,
	// JSON-RPC, the seller over TLS on the sixth, and the identity provider on the seventh. 0 picks free ports.
	Port int
	// DataDir is an existing folder for the file ca.pem, which Close removes. Default: a temporary folder, which
	// Close removes.
	DataDir string
	// PayTo gets what is paid to the sellers. Default: an address whose key nobody has.
	PayTo x402.Address
	// PublicURL is where people reach purser, if that is not on loopback: its dashboard's sign-ins may end there as well.
	PublicURL string
	// Now is the clock of chain and facilitator, see evm.Options. Default: time.Now.
	Now func() time.Time
	// Logger hears of the seller's troubles. Default: discarded.
	Logger *slog.Logger
}

// World is a running world.
type World struct {
	// Chain is where the money moves.
	Chain *evm.Chain
	// PayTo gets what is paid to the sellers.
	PayTo x402.Address

	// User is whom the identity provider signs in.
	User identity.User

	facilitator, seller, sellerTLS *listener
	identity                       *listener
	authority                      *authority
	caPath                         string
	tempDir                        string // "" when the folder is somebody else's
	transport                      *http.Transport
	cancel                         context.CancelFunc

	closing  sync.Once
	closeErr error
}

// Start starts everything. When ctx ends, nothing moves any more; Close must be called in any case.
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
	w.transport.Proxy = nil // the environment may name purser
	w.transport.TLSClientConfig = &tls.Config{RootCAs: w.authority.pool(), MinVersion: tls.VersionTLS12}
	w.transport.DialContext = dial
	w.transport.MaxIdleConnsPerHost = 64 // the seller has one host to talk to, its facilitator

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

// writeAuthority makes the certificates and puts the root where clients find it.
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

// Close ends everything and removes what Start made. Requests have two seconds to finish. Further calls return what the
// first one returned.
func (w *World) Close() error {
	w.closing.Do(func() { w.closeErr = w.close() })
	return w.closeErr
}

func (w *World) close() error {
	var errs []error
	var sellers [3]error
	var ends sync.WaitGroup
	for i, l := range []*listener{w.seller, w.sellerTLS, w.identity} { // first, since they need the facilitator, which needs the chain
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

// SellerURL is the seller by its name, for programs behind purser.
func (w *World) SellerURL() string { return w.seller.origin("http", SellerName) }

// SellerDirectURL is the seller by its address, for programs on this machine.
func (w *World) SellerDirectURL() string { return w.seller.origin("http", SellerIP) }

// SellerTLSURL is the seller over https by its name. CA signed its certificate, which is also for 127.0.0.1.
func (w *World) SellerTLSURL() string { return w.sellerTLS.origin("https", SellerTLSName) }

// IdentityURL is the issuer of the identity provider, which signs in anybody as User.
func (w *World) IdentityURL() string { return w.identity.origin("http", "127.0.0.1") }

// FacilitatorURL is the facilitator's base URL.
func (w *World) FacilitatorURL() string { return w.facilitator.origin("http", "127.0.0.1") }

// RPCURL is the chain's JSON-RPC.
func (w *World) RPCURL() string { return w.Chain.RPCURL() }

// CA is the path of the PEM file of the root that clients of SellerTLSURL must trust.
func (w *World) CA() string { return w.caPath }

// Token is the address of the token that everything is paid in.
func (w *World) Token() x402.Address { return x402.Address(w.Chain.TokenAddress()) }

// Client knows the sellers' names and trusts their authority. It does not pay.
func (w *World) Client() *http.Client { return &http.Client{Transport: w.transport} }

// dial finds the sellers by their names.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil && (host == SellerName || host == SellerTLSName) {
		address = net.JoinHostPort(SellerIP, port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Fund gives an account tokens out of nothing, in the token's smallest unit. It returns once they are there.
func (w *World) Fund(ctx context.Context, to x402.Address, amount x402.Amount) error {
	return w.Chain.Fund(ctx, common.Address(to), amount.Big())
}

// Balance is what an account has of the token, in its smallest unit.
func (w *World) Balance(ctx context.Context, owner x402.Address) (x402.Amount, error) {
	balance, err := w.Chain.Balance(ctx, common.Address(owner))
	if err != nil {
		return x402.Amount{}, err
	}
	amount, _ := x402.AmountFromBig(balance) // the chain knows no other numbers
	return amount, nil
}

// Settled finds the transaction that moved exactly what an authorization says; "" when there is none.
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
