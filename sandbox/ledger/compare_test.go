package ledger_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"go.uber.org/goleak"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/sandbox/ledger"
	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The EVM's node starts these once per process and drains them after its end.
		goleak.IgnoreTopFunction("github.com/ethereum/go-ethereum/core.(*txSenderCacher).cache"),
		goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"),
	)
}

// ground is one of the two chains, as package chain sees it.
type ground struct {
	token.Chain
	ahead *atomic.Int64
	seen  *chain.Client
	next  func(context.Context) error // waits for a block
}

func grounds(t *testing.T) map[string]ground {
	t.Helper()
	all := map[string]ground{}
	for _, name := range []string{"evm", "ledger"} {
		g := ground{ahead: new(atomic.Int64), next: func(context.Context) error { return nil }}
		now := func() time.Time { return time.Now().Add(time.Duration(g.ahead.Load())) }
		var closer interface{ Close() error }
		if name == "evm" {
			c, err := evm.Start(context.Background(), evm.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			g.Chain, g.next, closer = c, c.Mine, c
		} else {
			c, err := ledger.Start(context.Background(), ledger.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			g.Chain, closer = c, c
		}
		t.Cleanup(func() {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		})
		var err error
		if g.seen, err = chain.New(chain.Options{URL: g.RPCURL()}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.seen.Close)
		all[name] = g
	}
	return all
}

var (
	base, _ = x402.NetworkByWire("base")
	usdc    = base.Assets[0]
)

// actor plays the script on one chain and records what it sees. It leaves out hashes and times,
// which always differ.
type actor struct {
	t     *testing.T
	ctx   context.Context
	on    ground
	key   *ecdsa.PrivateKey
	payer common.Address
	said  []string
}

func (a *actor) note(format string, args ...any) {
	a.said = append(a.said, fmt.Sprintf(format, args...))
}

// sign returns an authorization of the payer, which change may alter before it is signed.
func (a *actor) sign(value uint64, change ...func(*x402.Authorization)) (x402.Authorization, x402.Signature) {
	a.t.Helper()
	now := time.Now().Add(time.Duration(a.on.ahead.Load()))
	one := x402.Authorization{
		From: x402.EVMAddress(a.payer), To: x402.EVMAddress([20]byte{0: 0xbe, 19: 1}), Value: money.New(value),
		ValidBefore: uint64(now.Add(time.Minute).Unix()),
	}
	_, _ = rand.Read(one.Nonce[:])
	for _, f := range change {
		f(&one)
	}
	signature, err := x402test.Sign(one.Digest(usdc, base.ChainID), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return one, signature
}

// reason returns the token's own text in an error.
func reason(err error) string {
	var revert *token.RevertError
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &revert):
		return fmt.Sprintf("%s (sent: %v)", revert.Reason, revert.Tx != "")
	}
	return err.Error()
}

// transfer tries an authorization first and then sends it.
func (a *actor) transfer(what string, one x402.Authorization, signature x402.Signature) string {
	simulated := a.on.Simulate(a.ctx, one, signature)
	tx, err := a.on.TransferWithAuthorization(a.ctx, one, signature)
	a.note("%s: simulated %s, sent %s, transaction %v", what, reason(simulated), reason(err), x402.ValidTransaction(tx))
	return tx
}

// look records what package chain says about an authorization.
func (a *actor) look(what string, one x402.Authorization, tx string) {
	a.t.Helper()
	got, err := a.on.seen.Trace(a.ctx, pay.TraceQuery{
		Network: base, Asset: usdc, Authorization: one, Created: time.Now().Add(time.Duration(a.on.ahead.Load())),
	})
	over := got.SafeTime.Unix() >= int64(one.ValidBefore)
	a.note("%s: used %v, canceled %v, used at the safe block %v, logs safe %v, over %v, transaction as sent %v, error %v",
		what, got.Used, got.Canceled, got.SafeUsed, got.SafeLogs, over, got.Transaction == tx, err)
}

func (a *actor) balances() {
	have, err := a.on.seen.Balance(a.ctx, base, usdc, x402.EVMAddress(a.payer))
	direct, derr := a.on.Balance(a.ctx, a.payer)
	transfers, terr := a.on.Transfers(a.ctx, &a.payer, nil, 0)
	given, gerr := a.on.Transfers(a.ctx, nil, &a.payer, 0)
	used, uerr := a.on.AuthorizationsUsed(a.ctx, a.payer)
	a.note("balance %s and %s, %d out, %d in, %d used, %v", have, direct, len(transfers), len(given), len(used),
		errors.Join(err, derr, terr, gerr, uerr))
	for i, one := range transfers {
		a.note("transfer %d: %s to %s, as used %v", i, one.Value, one.To, one.Tx == used[i].Tx)
	}
}

// play is the script.
func (a *actor) play() {
	t, ctx := a.t, a.ctx
	id, err := a.on.seen.Identify(ctx, base, usdc)
	a.note("chain %d, a genesis %v, %v", id.ChainID, x402.ValidTransaction(id.Genesis), err)
	a.note("token %s", a.on.TokenAddress())
	a.balances()
	poor, signature := a.sign(10)
	a.transfer("nothing in the wallet", poor, signature)
	if err := a.on.Fund(ctx, a.payer, big.NewInt(1000)); err != nil {
		t.Fatal(err)
	}
	a.balances()

	paid, signature := a.sign(100)
	a.look("before it is sent", paid, "")
	tx := a.transfer("a payment", paid, signature)
	a.look("once it is sent", paid, tx)
	a.transfer("the same again", paid, signature)
	a.look("once it is sent again", paid, tx)
	a.balances()

	for _, c := range []struct {
		what   string
		change func(*x402.Authorization)
		bend   func(*x402.Signature)
	}{
		{"too much", func(o *x402.Authorization) { o.Value = money.New(901) }, nil},
		{"all that there is in the world", func(o *x402.Authorization) {
			o.Value, _ = money.Parse("115792089237316195423570985008687907853269984665640564039457584007913129639935")
		}, nil},
		{"nothing at all", func(o *x402.Authorization) { o.Value = money.New(0) }, nil},
		{"to nobody", func(o *x402.Authorization) { o.To = x402.Address{} }, nil},
		{"expired", func(o *x402.Authorization) { o.ValidBefore -= 600 }, nil},
		{"not yet valid", func(o *x402.Authorization) { o.ValidAfter = o.ValidBefore - 1 }, nil},
		{"expired, and the signature is another's", func(o *x402.Authorization) { o.ValidBefore -= 600 }, func(s *x402.Signature) { s[3] ^= 1 }},
		{"another's signature", nil, func(s *x402.Signature) { s[40] ^= 1 }},
		{"v of 0", nil, func(s *x402.Signature) { s[64] -= 27 }},
		{"the malleated twin", nil, func(s *x402.Signature) {
			twin := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(s[32:64]))
			copy(s[32:64], common.BigToHash(twin).Bytes())
			s[64] = 55 - s[64]
		}},
		{"no signature", nil, func(s *x402.Signature) { *s = x402.Signature{64: 27} }},
	} {
		change := func(*x402.Authorization) {}
		if c.change != nil {
			change = c.change
		}
		one, signature := a.sign(1, change)
		if c.bend != nil {
			c.bend(&signature)
		}
		tx := a.transfer(c.what, one, signature)
		a.look(c.what, one, tx)
	}
	a.balances()

	idle, _ := a.sign(70)
	a.on.ahead.Add(int64(time.Hour))
	if err := a.on.next(ctx); err != nil {
		t.Fatal(err)
	}
	a.look("an hour later, what was paid", paid, tx)
	a.look("an hour later, what was never sent", idle, "")
	late, signature := a.sign(1, func(o *x402.Authorization) { o.ValidBefore -= 3600 })
	a.transfer("an hour too late", late, signature)
	used, err := a.on.AuthorizationState(ctx, a.payer, paid.Nonce)
	unused, err2 := a.on.AuthorizationState(ctx, a.payer, idle.Nonce)
	a.note("states %v and %v, %v", used, unused, errors.Join(err, err2))
	a.balances()
}

// The same script runs on the real EVM and on the ledger. Package chain and the settling party must
// see the same.
func TestLedgerIsAsTheEVM(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	said := map[string][]string{}
	for name, on := range grounds(t) {
		key, err := crypto.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		a := &actor{t: t, ctx: ctx, on: on, key: key, payer: crypto.PubkeyToAddress(key.PublicKey)}
		a.play()
		said[name] = a.said
	}
	if len(said["evm"]) != len(said["ledger"]) || len(said["evm"]) < 40 {
		t.Fatalf("%d and %d lines", len(said["evm"]), len(said["ledger"]))
	}
	for i, want := range said["evm"] {
		if got := said["ledger"][i]; got != want {
			t.Errorf("the EVM: %s\nthe ledger: %s", want, got)
		}
	}
	if testing.Verbose() {
		for _, line := range said["ledger"] {
			t.Log(line)
		}
	}
}
