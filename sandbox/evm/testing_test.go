package evm

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"go.uber.org/goleak"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The first chain starts one set for the whole process.
		goleak.IgnoreTopFunction("github.com/ethereum/go-ethereum/core.(*txSenderCacher).cache"),
		// The node's peer database is closed, but its pool drains for another half minute.
		goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"),
	)
}

// patience bounds every wait of the tests.
const patience = time.Minute

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, o Options) *Chain {
	t.Helper()
	c, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// dial connects to the chain as a foreign program does.
func dial(t *testing.T, c *Chain) *ethclient.Client {
	t.Helper()
	client, err := ethclient.DialContext(bounded(t), c.RPCURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// account is a key that the chain does not know.
type account struct {
	key     *ecdsa.PrivateKey
	address common.Address
}

func newAccount(t *testing.T) account {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return account{key: key, address: crypto.PubkeyToAddress(key.PublicKey)}
}

// funded returns a new account that owns tokens.
func funded(t *testing.T, c *Chain, tokens int64) account {
	t.Helper()
	a := newAccount(t)
	if err := c.Fund(bounded(t), a.address, big.NewInt(tokens)); err != nil {
		t.Fatal(err)
	}
	return a
}

func newNonce(t *testing.T) (nonce [32]byte) {
	t.Helper()
	if _, err := rand.Read(nonce[:]); err != nil {
		t.Fatal(err)
	}
	return nonce
}

// authorize returns an authorization that is valid for an hour.
func authorize(t *testing.T, from, to common.Address, value uint64) x402.Authorization {
	t.Helper()
	return x402.Authorization{
		From: x402.EVMAddress(from), To: x402.EVMAddress(to), Value: money.New(value), Nonce: newNonce(t),
		ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
	}
}

func unix(at time.Time) uint64 { return uint64(at.Unix()) }

var transferFields = []apitypes.Type{
	{Name: "from", Type: "address"},
	{Name: "to", Type: "address"},
	{Name: "value", Type: "uint256"},
	{Name: "validAfter", Type: "uint256"},
	{Name: "validBefore", Type: "uint256"},
	{Name: "nonce", Type: "bytes32"},
}

// signTyped signs a message of the token's EIP-712 domain. It uses go-ethereum's own hashing of
// typed data, as a second opinion on the contract's hashing.
func (a account) signTyped(t *testing.T, primary string, fields []apitypes.Type, message apitypes.TypedDataMessage) (signature [65]byte) {
	t.Helper()
	digest, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {
				{Name: "name", Type: "string"},
				{Name: "version", Type: "string"},
				{Name: "chainId", Type: "uint256"},
				{Name: "verifyingContract", Type: "address"},
			},
			primary: fields,
		},
		PrimaryType: primary,
		Domain: apitypes.TypedDataDomain{
			Name: "USD Coin", Version: "2", ChainId: math.NewHexOrDecimal256(8453), VerifyingContract: usdcOnBase,
		},
		Message: message,
	})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := crypto.Sign(digest, a.key)
	if err != nil {
		t.Fatal(err)
	}
	signed[64] += 27
	return [65]byte(signed)
}

func (a account) signAs(t *testing.T, primary string, auth x402.Authorization) [65]byte {
	t.Helper()
	return a.signTyped(t, primary, transferFields, apitypes.TypedDataMessage{
		"from": auth.From.String(), "to": auth.To.String(), "value": auth.Value.String(),
		"validAfter": fmt.Sprint(auth.ValidAfter), "validBefore": fmt.Sprint(auth.ValidBefore),
		"nonce": hexutil.Encode(auth.Nonce[:]),
	})
}

func (a account) sign(t *testing.T, auth x402.Authorization) [65]byte {
	t.Helper()
	return a.signAs(t, "TransferWithAuthorization", auth)
}

func (a account) signCancel(t *testing.T, nonce [32]byte) [65]byte {
	t.Helper()
	return a.signTyped(t, "CancelAuthorization",
		[]apitypes.Type{{Name: "authorizer", Type: "address"}, {Name: "nonce", Type: "bytes32"}},
		apitypes.TypedDataMessage{"authorizer": a.address.Hex(), "nonce": hexutil.Encode(nonce[:])})
}

// send sends a transaction of the account through JSON-RPC and waits until it is mined. A nil to
// creates a contract.
func (a account) send(t *testing.T, client *ethclient.Client, to *common.Address, data []byte) *types.Receipt {
	t.Helper()
	ctx := bounded(t)
	nonce, err := client.PendingNonceAt(ctx, a.address)
	if err != nil {
		t.Fatal(err)
	}
	price, err := client.SuggestGasPrice(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := types.SignNewTx(a.key, types.LatestSignerForChainID(big.NewInt(8453)), &types.LegacyTx{
		Nonce: nonce, GasPrice: price, Gas: 300_000, To: to, Data: data,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SendTransaction(ctx, tx); err != nil {
		t.Fatal(err)
	}
	var receipt *types.Receipt
	eventually(t, "the transaction is mined", func() bool {
		receipt, err = client.TransactionReceipt(ctx, tx.Hash())
		return err == nil
	})
	return receipt
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func wantBalance(t *testing.T, c *Chain, owner common.Address, want int64) {
	t.Helper()
	got, err := c.Balance(bounded(t), owner)
	if err != nil {
		t.Fatal(err)
	}
	if got.Cmp(big.NewInt(want)) != 0 {
		t.Errorf("balance of %s is %s, want %d", owner, got, want)
	}
}

func pack(t *testing.T, c *Chain, method string, args ...any) []byte {
	t.Helper()
	data, err := c.token.Pack(method, args...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// usdcOnBase is the token's address.
const usdcOnBase = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" //nolint:gosec // an address, no secret
