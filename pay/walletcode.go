package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/x402"
)

// WalletCode holds a wallet's code as a chain tells of it. The zero value is a wallet without.
type WalletCode struct {
	// Kind describes the code for people: "a delegation to 0x… (EIP-7702)", or "a contract"; "": there is none.
	Kind string
	// Accepts: the code says that a plain signature of the wallet's key is one of the wallet.
	Accepts bool
}

// refuses reports whether tokens will refuse the wallet's signatures: they ask the code of a wallet that has some.
func (c WalletCode) refuses() bool { return c.Kind != "" && !c.Accepts }

// Codes is a further method of a [Chain]. Without it no wallet is known to have code.
type Codes interface {
	// Code tells of a wallet's code at the latest block. When there is some, it is asked what a token would ask
	// it (ERC-1271): whether a signature that sign makes is the wallet's.
	Code(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address, sign func(context.Context) (digest [32]byte, sig x402.Signature, err error)) (WalletCode, error)
}

// WalletCodeError: the wallet has code that refuses plain signatures, so a token would refuse the payment.
type WalletCodeError struct {
	Wallet Wallet
	Code   WalletCode
}

func (e *WalletCodeError) Error() string {
	return fmt.Sprintf("wallet_has_code: wallet %s has %s, and that refuses the signatures of its key, so USDC would refuse the payment; remove the code, or pay from another wallet",
		e.Wallet.Address, e.Code.Kind)
}

const (
	// codeKept is the time for which it is remembered what code a wallet has, and codeRefusedKept that it
	// refuses: an operator has perhaps just removed it.
	codeKept        = 10 * time.Minute
	codeRefusedKept = 30 * time.Second
)

// codeCache remembers the code of wallets.
type codeCache struct {
	mu   sync.Mutex
	seen *lru.Cache[balanceKey, knownCode]
}

type knownCode struct {
	code  WalletCode
	until time.Time
}

func newCodeCache() codeCache {
	return codeCache{seen: perclient.NewCache[balanceKey, knownCode](maxBalances)}
}

// codeKey names what is known of a wallet's code, beside its balance: no wallet has itself as a spender.
func (c choice) codeKey() balanceKey {
	return balanceKey{asset: c.asset.Address, owner: *c.wallet.Address, spender: *c.wallet.Address}
}

// signs checks that a token would take the wallet's signature. Without an answer the payment goes on: the
// seller finds out.
func (p *Payer) signs(ctx context.Context, c choice) error {
	if c.wallet.Address == nil {
		return nil
	}
	code, err := p.codeOf(ctx, c)
	switch {
	case is[*QuestionsError](err):
		return err
	case err != nil:
		p.log.WarnContext(ctx, "wallet's code not known", "wallet", c.wallet.ProviderID, "error", err)
		return nil
	case code.refuses():
		return failedFor(nil, &WalletCodeError{Wallet: c.wallet, Code: code})
	}
	return nil
}

// codeOf returns what is known of a wallet's code: see [Payer.look]. An RPC that does not tell of code has
// rests of its own, so that balances are read all the same.
func (p *Payer) codeOf(ctx context.Context, c choice) (WalletCode, error) {
	chain, can := p.opts.Chain.(Codes)
	if !can {
		return WalletCode{}, nil
	}
	remembered := func() (WalletCode, bool) {
		p.codes.mu.Lock()
		defer p.codes.mu.Unlock()
		known, is := p.codes.seen.Get(c.codeKey())
		return known.code, is && p.now().Before(known.until)
	}
	if code, known := remembered(); known {
		return code, nil
	}
	_, _, err := p.look(ctx, c, c.codeKey(), p.slowCode, asRemembered, func(ctx context.Context) (have knownBalance, err error) {
		if err = p.CheckChain(ctx, c.network, c.asset); err != nil {
			return have, err
		}
		code, err := chain.Code(ctx, c.network, c.asset, *c.wallet.Address, func(ctx context.Context) ([32]byte, x402.Signature, error) {
			return p.signDead(ctx, c)
		})
		if err != nil {
			return have, err
		}
		kept := codeKept
		if code.refuses() {
			kept = codeRefusedKept
		}
		p.codes.mu.Lock()
		defer p.codes.mu.Unlock()
		p.codes.seen.Add(c.codeKey(), knownCode{code, p.now().Add(kept)})
		return have, nil
	})
	if errors.Is(err, ErrUnwatched) {
		return WalletCode{}, nil
	}
	if err != nil {
		return WalletCode{}, err
	}
	code, _ := remembered()
	return code, nil
}

// signDead signs an authorization that moves nothing and has ended long ago, for a wallet's code to judge.
func (p *Payer) signDead(ctx context.Context, c choice) (digest [32]byte, sig x402.Signature, err error) {
	m := MessageOf(x402.Authorization{
		From: *c.wallet.Address, To: *c.wallet.Address, ValidBefore: 1, Nonce: p.newNonce(c.wallet.KeyID),
	}, c.asset, c.network.ChainID)
	if sig, err = SignMessage(ctx, p.opts.Wallets, c.wallet, m); err != nil {
		err = fmt.Errorf("%w: %w", errUncounted, err) // which says nothing of the RPC
	}
	return m.Digest, sig, err
}

// WalletCode tells of a wallet's code as it was some minutes ago at most. Without an RPC there is none.
func (p *Payer) WalletCode(ctx context.Context, w Wallet) (WalletCode, error) {
	n, ok := p.network(w.Network)
	if w.Address == nil || p.opts.Chain == nil || !ok {
		return WalletCode{}, nil
	}
	return p.codeOf(ctx, choice{wallet: w, network: n, asset: n.Assets[0]})
}
