package e2e

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/evm"
)

const (
	// price is the sellers' default price: one cent, in the smallest unit of USDC.
	price = 10_000
	// funds is a payer's first balance: one dollar.
	funds = 1_000_000
)

// world is a chain with two official facilitators and official sellers on it.
type world struct {
	ctx   context.Context // ends with the run
	dir   string          // for binaries and data
	chain *evm.Chain
	// certificates are the sellers'.
	certificates *process.Certificates

	facilitator   string // of @x402/core 2.27, both protocol versions
	facilitatorV1 string // of x402 1.2
	// settlements stands between purser and facilitator.
	settlements *relay

	v2, v1 seller
	// v1Modern speaks version 1 too, but settles through the newer facilitator.
	v1Modern seller

	config   string // the shipped one, with the sellers' names and the authority of their certificates
	sharedMu sync.Mutex
	shared   *purser

	children []*process.Process
}

// seller is a running paid API.
type seller struct {
	url, tls string // http and https, on loopback
	name     string // by which purser knows it as well
	payTo    common.Address
}

// under is the seller's base URL by its name.
func (s seller) under(t *testing.T, scheme string) string {
	t.Helper()
	if scheme == "https" {
		return named(t, s.tls, s.name)
	}
	return named(t, s.url, s.name)
}

func startWorld(ctx context.Context) (*world, error) {
	w := &world{ctx: ctx}
	if err := w.start(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) start() (err error) {
	if w.dir, err = os.MkdirTemp("", "purser-e2e-"); err != nil {
		return err
	}
	if w.certificates, err = process.NewCertificates(w.dir, nameV2, nameV1, nameOther); err != nil {
		return err
	}
	text, err := os.ReadFile("../xcaddy.Caddyfile")
	if err != nil {
		return err
	}
	w.config = filepath.Join(w.dir, "Caddyfile")
	edited := strings.Replace(string(text), process.ProxyBlock, process.ProxyBlock+w.proxyDirectives(), 1)
	if err := os.WriteFile(w.config, []byte(edited), 0o600); err != nil {
		return err
	}
	if w.chain, err = evm.Start(w.ctx, evm.Options{}); err != nil {
		return err
	}
	if err := w.startFacilitators(); err != nil {
		return err
	}
	if w.settlements, err = newRelay(w.facilitator); err != nil {
		return err
	}
	type start struct {
		into        *seller
		script      string
		facilitator string
	}
	return concurrently(func(s start) (err error) {
		if *s.into, err = w.startSeller(s.script, s.facilitator, nil); s.script == "seller-v1.mjs" {
			s.into.name = nameV1
		}
		return err
	},
		start{&w.v2, "seller-v2.mjs", w.facilitator},
		start{&w.v1, "seller-v1.mjs", w.facilitatorV1},
		start{&w.v1Modern, "seller-v1.mjs", w.facilitator},
	)
}

func (w *world) startFacilitators() error {
	type start struct {
		into   *string
		script string
	}
	return concurrently(func(s start) error {
		key, address, err := newAccount()
		if err != nil {
			return err
		}
		if err := w.chain.FundETH(w.ctx, address, new(big.Int).Mul(big.NewInt(100), big.NewInt(params.Ether))); err != nil {
			return err
		}
		ready, err := w.startPeer(s.script, map[string]string{"RPC_URL": w.chain.RPCURL(), "PRIVATE_KEY": key})
		*s.into = ready.URL
		return err
	},
		start{&w.facilitator, "facilitator.mjs"},
		start{&w.facilitatorV1, "facilitator-v1.mjs"},
	)
}

// startSeller starts a paid API that settles through a facilitator and is paid to a new account. more overrides the
// environment.
func (w *world) startSeller(script, facilitator string, more map[string]string) (seller, error) {
	_, payTo, err := newAccount()
	if err != nil {
		return seller{}, err
	}
	environment := map[string]string{
		"FACILITATOR_URL": facilitator, "PAY_TO": payTo.Hex(), "TLS_CERT": w.certificates.File, "TLS_KEY": w.certificates.KeyFile,
		"UPTO": "1",
	}
	for name, value := range more {
		environment[name] = value
	}
	ready, err := w.startPeer(script, environment)
	return seller{ready.URL, ready.TLS, nameV2, common.HexToAddress(environment["PAY_TO"])}, err
}

// startPeer starts a program that lives as long as the run does.
func (w *world) startPeer(script string, environment map[string]string) (peerReady, error) {
	c, ready, err := startPeer(script, environment)
	if err != nil {
		return peerReady{}, err
	}
	w.sharedMu.Lock()
	defer w.sharedMu.Unlock()
	w.children = append(w.children, c)
	return ready, nil
}

func (w *world) close() error {
	var errs []error
	for _, c := range w.children {
		if err := c.Stop(syscall.SIGTERM); err != nil {
			errs = append(errs, fmt.Errorf("%w\n%s", err, c.Log.End()))
		}
	}
	if w.settlements != nil {
		errs = append(errs, w.settlements.close())
	}
	if w.chain != nil {
		errs = append(errs, w.chain.Close())
	}
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

// concurrently applies a function to every item at once and joins the errors.
func concurrently[T any](do func(T) error, items ...T) error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() { errs[i] = do(item) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// newAccount makes an account and returns its private key as 0x and hex.
func newAccount() (string, common.Address, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return "", common.Address{}, err
	}
	return hexKey(key), crypto.PubkeyToAddress(key.PublicKey), nil
}

func hexKey(key *ecdsa.PrivateKey) string {
	return "0x" + hex.EncodeToString(crypto.FromECDSA(key))
}

// fund gives an account what a payer starts with.
func (w *world) fund(t *testing.T, account common.Address) {
	t.Helper()
	if err := w.chain.Fund(t.Context(), account, big.NewInt(funds)); err != nil {
		t.Fatalf("fund %s: %v", account, err)
	}
}

// paid lists the transfers out of an account.
func (w *world) paid(t *testing.T, from common.Address) []evm.Transfer {
	t.Helper()
	transfers, err := w.chain.Transfers(t.Context(), &from, nil, 0)
	if err != nil {
		t.Fatalf("transfers of %s: %v", from, err)
	}
	return transfers
}

// requirePaid fails unless an account has paid the price to a seller exactly n times and nothing else.
func (w *world) requirePaid(t *testing.T, from common.Address, to common.Address, n int) {
	t.Helper()
	transfers := w.paid(t, from)
	if len(transfers) != n {
		t.Fatalf("%d transfers, want %d: %+v", len(transfers), n, transfers)
	}
	for _, transfer := range transfers {
		if transfer.To != to || transfer.Value.Cmp(big.NewInt(price)) != 0 {
			t.Fatalf("paid %s to %s, want %d to %s", transfer.Value, transfer.To, price, to)
		}
	}
	w.requireBalance(t, from, funds-int64(n)*price)
}

// requireBalance fails unless an account owns exactly so much of the token.
func (w *world) requireBalance(t *testing.T, account common.Address, want int64) {
	t.Helper()
	got, err := w.chain.Balance(t.Context(), account)
	if err != nil {
		t.Fatalf("balance of %s: %v", account, err)
	}
	if got.Cmp(big.NewInt(want)) != 0 {
		t.Fatalf("balance of %s is %s, want %d", account, got, want)
	}
}
