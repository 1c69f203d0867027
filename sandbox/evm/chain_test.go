package evm

import (
	"context"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

func TestStartReportsABusyPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if c, err := Start(context.Background(), Options{Port: taken.Addr().(*net.TCPAddr).Port}); err == nil {
		t.Error("Start succeeded on a port that is taken")
		_ = c.Close()
	}
}

func TestForeignProgramsFindTheirWay(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	client, ctx := dial(t, c), bounded(t)
	id, err := client.ChainID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if id.Uint64() != c.ChainID() || id.Uint64() != 8453 {
		t.Errorf("chain id %s, want 8453", id)
	}
	code, err := client.CodeAt(ctx, c.TokenAddress(), nil)
	if err != nil || len(code) == 0 {
		t.Errorf("no code at the token's address: %v", err)
	}
	// Multicall3 answers with the time of the block that it runs in.
	multicall := common.HexToAddress(multicallAddress)
	answer, err := client.CallContract(ctx, ethereum.CallMsg{
		To: &multicall, Data: crypto.Keccak256([]byte("getCurrentBlockTimestamp()"))[:4],
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lag := time.Since(time.Unix(new(big.Int).SetBytes(answer).Int64(), 0))
	if lag < -2*time.Second || lag > patience {
		t.Errorf("Multicall3 sees a time that is %s behind", lag)
	}
	for _, tag := range []int64{-3, -4} { // finalized, safe
		if _, err := client.HeaderByNumber(ctx, big.NewInt(tag)); err != nil {
			t.Errorf("block tag %d: %v", tag, err)
		}
	}
}

func TestForeignTransactionsAreMined(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	client, ctx := dial(t, c), bounded(t)
	relayer, payer, seller := newAccount(t), funded(t, c, 1000), newAccount(t)
	if err := c.FundETH(ctx, relayer.address, big.NewInt(1e18)); err != nil {
		t.Fatal(err)
	}
	auth := authorize(t, payer.address, seller.address, 300)
	data, err := c.packTransfer(auth, payer.sign(t, auth))
	if err != nil {
		t.Fatal(err)
	}
	to := c.TokenAddress()
	if receipt := relayer.send(t, client, &to, data); receipt.Status != 1 {
		t.Error("the foreign transaction reverted")
	}
	wantBalance(t, c, seller.address, 300)
	wantBalance(t, c, payer.address, 700)
}

func TestTwoChainsAreSeparate(t *testing.T) {
	t.Parallel()
	one, two := start(t, Options{}), start(t, Options{})
	if one.RPCURL() == two.RPCURL() {
		t.Fatal("both listen at", one.RPCURL())
	}
	a := funded(t, one, 5)
	wantBalance(t, one, a.address, 5)
	wantBalance(t, two, a.address, 0)
}

func TestCloseReleasesWaitingCalls(t *testing.T) {
	t.Parallel()
	frozen := time.Now()
	c := start(t, Options{Now: func() time.Time { return frozen }})
	// The first block puts the chain ahead of a stopped clock, so the second never comes.
	if err := c.Mine(bounded(t)); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := c.Mine(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Mine returned %v, want its context's error", err)
	}
	results := make(chan error, 2)
	go func() { results <- c.Mine(bounded(t)) }()
	go func() { results <- c.Fund(bounded(t), common.Address{1}, big.NewInt(1)) }()
	eventually(t, "the funding waits for a block", func() bool {
		pending, _ := c.eth.TxPool().Stats()
		return pending == 1
	})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-results; !errors.Is(err, ErrClosed) {
			t.Errorf("a waiting call returned %v, want ErrClosed", err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error("second Close:", err)
	}
	if err := c.Mine(bounded(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("Mine after Close returned %v, want ErrClosed", err)
	}
	if err := c.Fund(bounded(t), common.Address{1}, big.NewInt(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Fund after Close returned %v, want ErrClosed", err)
	}
	if conn, err := net.DialTimeout("tcp", c.RPCURL()[len("http://"):], time.Second); err == nil {
		conn.Close()
		t.Error("the JSON-RPC listener is still open")
	}
}

func TestBlocksStopWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	c, err := Start(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	eventually(t, "blocks stop", func() bool { return errors.Is(c.Mine(bounded(t)), ErrClosed) })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
