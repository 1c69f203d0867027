// Package evm runs the chain of the sandbox in this process: an EVM chain with the chain id of
// Base, Multicall3, and a token that behaves like USDC with EIP-3009 at USDC's address on Base. It
// answers JSON-RPC on loopback, so that other programs can pay, verify and settle on it.
//
// The package knows tokens, authorizations and blocks. x402, sellers and wallets are built on top
// of it. Nothing is stored and nothing here has value; the operator's key is public.
package evm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/ethclient/gethclient"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/purserpay/purser/sandbox/contracts"
	"github.com/purserpay/purser/x402"
)

const (
	// multicallAddress is the same on every chain with Multicall3.
	multicallAddress = "0xcA11bde05977b3631167028862bE2a173976CA11"
	// blockGas leaves room for thousands of payments in a block.
	blockGas = 500_000_000
	// poolSlots bounds the payments of one account that wait for the next block. All payments come
	// from the operator's account.
	poolSlots = 8192
	host      = "127.0.0.1"
)

// ErrClosed reports that the chain stopped before the awaited block came.
var ErrClosed = errors.New("the sandbox chain is closed")

// Options configures a Chain. The zero value works.
type Options struct {
	// Network has the chain id, and USDC's address for the token. Default: base. The token's EIP-712
	// name is "USD Coin", so base-sepolia is not possible.
	Network x402.Network
	// Port is the port of the JSON-RPC listener on 127.0.0.1. Default: a free one.
	Port int
	// Now is the clock of the block times. It must run as fast as real time. A jump forward is
	// noticed within a second. The "pending" block of JSON-RPC always uses the real clock. Default:
	// time.Now.
	Now func() time.Time
}

// Chain is a running chain. It is safe for concurrent use.
type Chain struct {
	now     func() time.Time
	network x402.Network
	chainID *big.Int
	stack   *node.Node
	eth     *eth.Ethereum
	rpc     *rpc.Client
	client  *ethclient.Client
	geth    *gethclient.Client
	token   abi.ABI
	op      *operator

	mine   chan chan struct{} // requests for a block; each is closed with its block
	cancel context.CancelFunc // ends block production
	done   chan struct{}      // closed when block production has ended
	failed error              // why block production failed; readable once done is closed

	waitMu  sync.Mutex
	waiters map[common.Hash]chan *types.Receipt // by transaction

	closeOnce sync.Once
	closeErr  error
}

// Start makes the genesis block, opens the JSON-RPC listener and begins to make blocks. Blocks stop
// when ctx ends. The caller must call Close in any case.
func Start(ctx context.Context, o Options) (*Chain, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Network.ChainID == 0 {
		o.Network = x402.DefaultNetworks()[0]
	}
	chainID := new(big.Int).SetUint64(o.Network.ChainID)
	c := &Chain{
		now:     o.Now,
		network: o.Network,
		chainID: chainID,
		mine:    make(chan chan struct{}),
		done:    make(chan struct{}),
		waiters: make(map[common.Hash]chan *types.Receipt),
		op:      newOperator(chainID),
	}
	var err error
	if c.token, err = abi.JSON(bytes.NewReader(contracts.Token().ABI)); err != nil {
		return nil, fmt.Errorf("read the token's ABI: %w", err)
	}
	if err := c.startNode(o.Port); err != nil {
		return nil, err
	}
	ctx, c.cancel = context.WithCancel(ctx)
	go func() {
		defer close(c.done)
		c.failed = c.produce(ctx)
	}()
	return c, nil
}

// genesis puts the contracts at their usual addresses, and gives the operator more ether than it
// can spend.
func (c *Chain) genesis() *core.Genesis {
	config := *params.AllDevChainProtocolChanges
	config.ChainID = c.chainID
	// The newest fork prices new storage several times higher than Base. The usual gas of a
	// transfer would not suffice.
	config.BogotaTime = nil
	// All other forks are active from the first block. Their rules call contracts that must exist
	// then.
	alloc := core.SystemContractAllocs()
	maps.Copy(alloc, types.GenesisAlloc{
		c.TokenAddress():                      {Code: contracts.Token().DeployedBytecode, Balance: new(big.Int)},
		common.HexToAddress(multicallAddress): {Code: contracts.Multicall3().DeployedBytecode, Balance: new(big.Int)},
		common.Address(x402.Permit2.EVM()):    {Code: contracts.Permit2().DeployedBytecode, Balance: new(big.Int)},
		common.Address(x402.ExactProxy.EVM()): {Code: contracts.ExactProxy().DeployedBytecode, Balance: new(big.Int)},
		common.Address(x402.UptoProxy.EVM()):  {Code: contracts.UptoProxy().DeployedBytecode, Balance: new(big.Int)},
		c.op.address:                          {Balance: new(big.Int).Lsh(big.NewInt(1), 200)},
	})
	return &core.Genesis{
		Config:    &config,
		Timestamp: uint64(c.now().Unix()),
		GasLimit:  blockGas,
		Alloc:     alloc,
	}
}

// startNode assembles the parts of go-ethereum's simulated backend. The backend itself would hide
// three needed things: the address of its listener, transactions from other programs, and the
// choice of block times.
func (c *Chain) startNode(port int) (err error) {
	// A node that fails to start leaves goroutines behind. So its usual failure, a taken port, is
	// tested first.
	address := net.JoinHostPort(host, strconv.Itoa(port))
	probe, err := net.Listen("tcp", address) //nolint:noctx // at once, or not at all
	if err != nil {
		return fmt.Errorf("JSON-RPC: %w", err)
	}
	if err := probe.Close(); err != nil {
		return fmt.Errorf("JSON-RPC: %w", err)
	}
	nodeConfig := node.DefaultConfig
	nodeConfig.DataDir = "" // in memory
	nodeConfig.P2P = p2p.Config{NoDiscovery: true}
	nodeConfig.HTTPHost, nodeConfig.HTTPPort = host, port
	nodeConfig.HTTPModules = []string{"eth", "net", "web3"}

	ethConfig := ethconfig.Defaults
	ethConfig.Genesis = c.genesis()
	ethConfig.NetworkId = c.network.ChainID
	ethConfig.SyncMode = ethconfig.FullSync
	ethConfig.LogNoHistory = true // logs are found by reading the blocks
	ethConfig.Miner.GasCeil = blockGas
	ethConfig.TxPool.NoLocals = true
	ethConfig.TxPool.AccountSlots, ethConfig.TxPool.GlobalSlots = poolSlots, poolSlots
	ethConfig.TxPool.AccountQueue, ethConfig.TxPool.GlobalQueue = poolSlots, poolSlots

	if c.stack, err = node.New(&nodeConfig); err != nil {
		return fmt.Errorf("assemble the chain's node: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stack.Close())
		}
	}()
	if c.eth, err = eth.New(c.stack, &ethConfig); err != nil {
		return fmt.Errorf("assemble the chain: %w", err)
	}
	c.stack.RegisterAPIs([]rpc.API{{
		Namespace: "eth",
		Service:   filters.NewFilterAPI(filters.NewFilterSystem(c.eth.APIBackend, filters.Config{})),
	}})
	head := c.eth.BlockChain().CurrentBlock()
	c.eth.BlockChain().SetSafe(head)
	c.eth.BlockChain().SetFinalized(head)
	if err = c.stack.Start(); err != nil {
		return fmt.Errorf("start the chain's node on %s: %w", address, err)
	}
	c.eth.SetSynced()
	c.rpc = c.stack.Attach()
	c.client = ethclient.NewClient(c.rpc)
	c.geth = gethclient.New(c.rpc)
	return nil
}

// Close stops block production and the listener, and frees the chain. Calls that still wait for a
// block return ErrClosed. Later calls of Close return the first result.
func (c *Chain) Close() error {
	c.closeOnce.Do(func() {
		c.cancel()
		<-c.done
		c.rpc.Close()
		c.closeErr = errors.Join(c.failed, c.stack.Close())
	})
	return c.closeErr
}

// RPCURL returns the URL of the JSON-RPC listener, as http://host:port.
func (c *Chain) RPCURL() string { return c.stack.HTTPEndpoint() }

// TokenAddress returns the token's address, which is USDC's on Base.
func (c *Chain) TokenAddress() common.Address {
	return common.Address(c.network.Assets[0].Address.EVM())
}
