package chain_test

import (
	"context"
	"crypto/ecdsa"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// patience bounds every wait for the chain.
const patience = time.Minute

// realPayer is an account with tokens on a real chain.
type realPayer struct {
	key     *ecdsa.PrivateKey
	address x402.Address
}

func (p realPayer) authorize(nonce byte, validFor time.Duration) pay.TraceQuery {
	now := time.Now()
	return pay.TraceQuery{Network: base, Asset: usdc, Created: now, Authorization: x402.Authorization{
		From: p.address, To: payee, Value: money.New(10_000),
		ValidBefore: uint64(now.Add(validFor).Unix()), Nonce: x402.Nonce{0: nonce},
	}}
}

func (p realPayer) settle(ctx context.Context, t *testing.T, network *evm.Chain, a x402.Authorization) string {
	t.Helper()
	signature := must(x402test.Sign(a.Digest(usdc, base.ChainID), p.key))
	transaction := must(network.TransferWithAuthorization(ctx, a, signature))
	return transaction
}

func (p realPayer) cancel(ctx context.Context, t *testing.T, network *evm.Chain, nonce x402.Nonce) string {
	t.Helper()
	who := make([]byte, 32)
	copy(who[12:], p.address.Bytes())
	message := crypto.Keccak256(crypto.Keccak256([]byte("CancelAuthorization(address authorizer,bytes32 nonce)")), who, nonce[:])
	digest := crypto.Keccak256([]byte{0x19, 0x01}, usdc.DomainSeparator[:], message)
	signature := must(x402test.Sign([32]byte(digest), p.key))
	transaction := must(network.CancelAuthorization(ctx, common.Address(p.address.EVM()), nonce, signature))
	return transaction
}

// TestOnARealChain checks every answer against a chain that really moved the money.
func TestOnARealChain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	network := must(evm.Start(ctx, evm.Options{}))
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	client := must(chain.New(chain.Options{URL: network.RPCURL()}))
	t.Cleanup(client.Close)

	id, err := client.Identify(ctx, base, usdc)
	if err != nil || id.ChainID != 8453 || !x402.ValidTransaction(id.Genesis) {
		t.Fatalf("identity %+v, %v", id, err)
	}

	key := must(crypto.GenerateKey())
	rich := realPayer{key, x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))}
	if got, err := client.Balance(ctx, base, usdc, rich.address); err != nil || !got.IsZero() {
		t.Fatalf("balance before funding %s, %v", got, err)
	}
	if err := network.Fund(ctx, common.Address(rich.address.EVM()), big.NewInt(1_000_000)); err != nil {
		t.Fatal(err)
	}

	used := rich.authorize(1, time.Minute)
	transaction := rich.settle(ctx, t, network, used.Authorization)
	canceled := rich.authorize(2, time.Minute)
	cancellation := rich.cancel(ctx, t, network, canceled.Authorization.Nonce)
	unused := rich.authorize(3, time.Minute)
	expiring := rich.authorize(4, 2*time.Second)

	if got, err := client.Balance(ctx, base, usdc, rich.address); err != nil || got != money.New(990_000) {
		t.Errorf("balance after paying %s, %v", got, err)
	}
	for name, c := range map[string]struct {
		query pay.TraceQuery
		want  pay.Trace
	}{
		"used":     {used, pay.Trace{Used: true, Moved: money.New(10_000), Transaction: transaction, SafeUsed: true, SafeLogs: true}},
		"canceled": {canceled, pay.Trace{Canceled: true, Transaction: cancellation, SafeUsed: true, SafeLogs: true}},
		"unused":   {unused, pay.Trace{}},
	} {
		got := poll(ctx, t, client, c.query, func(got pay.Trace) bool { return got.SafeUsed == c.want.SafeUsed })
		if got.Chain != id {
			t.Errorf("%s: from %+v, want %+v", name, got.Chain, id)
		}
		if got.SafeNumber == 0 || !x402.ValidTransaction(got.SafeHash) || got.Latest.Before(got.SafeTime) {
			t.Errorf("%s: safe block %d %s, latest %v", name, got.SafeNumber, got.SafeHash, got.Latest)
		}
		got.SafeTime, got.Chain, got.SafeNumber, got.SafeHash, got.Latest = time.Time{}, pay.ChainIdentity{}, 0, "", time.Time{}
		if got != c.want {
			t.Errorf("%s: trace %+v, want %+v", name, got, c.want)
		}
	}

	// The authorization is never used. At some time a safe block proves that it cannot be used any
	// more.
	expiry := time.Unix(int64(expiring.Authorization.ValidBefore), 0)
	if got := poll(ctx, t, client, expiring, func(got pay.Trace) bool { return !got.SafeTime.Before(expiry) }); got.SafeUsed || got.Used {
		t.Errorf("expired: trace %+v", got)
	}

	// Another transfer's log does not confirm terms that the chain never saw.
	other := used
	other.Authorization.Value = money.New(10_001)
	if got, err := client.Trace(ctx, other); err == nil {
		t.Errorf("other amount: trace %+v", got)
	}
}

func poll(ctx context.Context, t *testing.T, client *chain.Client, q pay.TraceQuery, done func(pay.Trace) bool) pay.Trace {
	t.Helper()
	for {
		got := must(client.Trace(ctx, q))
		if done(got) {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("still %+v", got)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
