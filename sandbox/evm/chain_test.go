package evm

import (
	"context"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

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
