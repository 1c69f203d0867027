package chain

import (
	"context"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// Networks asks the RPC of each network, by its name. Where there is none, the error is
// pay.ErrUnwatched.
type Networks map[string]Reader

var (
	_ pay.Chain        = Networks(nil)
	_ pay.ChainScanner = Networks(nil)
	_ pay.Header       = Networks(nil)

	_ treasury.ChainHistory = Networks(nil)

	_ treasury.TransactionChain = Networks(nil)
)

// of answers a question about a network with its Reader.
func of[T any](all Networks, n x402.Network, ask func(Reader) (T, error)) (answer T, err error) {
	if c := all[n.Name]; c != nil {
		return ask(c)
	}
	return answer, pay.ErrUnwatched
}

// Close closes idle connections.
func (all Networks) Close() {
	for _, c := range all {
		c.Close()
	}
}

// Identify is Client.Identify of the network's RPC.
func (all Networks) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	return of(all, n, func(c Reader) (pay.ChainIdentity, error) { return c.Identify(ctx, n, a) })
}

// Balance is Client.Balance of the network's RPC.
func (all Networks) Balance(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address) (money.Amount, error) {
	return of(all, n, func(c Reader) (money.Amount, error) { return c.Balance(ctx, n, a, owner) })
}

// Trace is Client.Trace of the network's RPC.
func (all Networks) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	return of(all, q.Network, func(c Reader) (pay.Trace, error) { return c.Trace(ctx, q) })
}

// Head is Client.Head of the network's RPC.
func (all Networks) Head(ctx context.Context, n x402.Network) (pay.ChainBlock, error) {
	return of(all, n, func(c Reader) (pay.ChainBlock, error) { return c.Head(ctx, n) })
}

// Safe is Client.Safe of the network's RPC.
func (all Networks) Safe(ctx context.Context, n x402.Network) (pay.ChainBlock, error) {
	return of(all, n, func(c Reader) (pay.ChainBlock, error) { return c.Safe(ctx, n) })
}

// Before is Client.Before of the network's RPC.
func (all Networks) Before(ctx context.Context, n x402.Network, moment time.Time) (pay.ChainBlock, error) {
	return of(all, n, func(c Reader) (pay.ChainBlock, error) { return c.Before(ctx, n, moment) })
}

// Used is Client.Used of the network's RPC.
func (all Networks) Used(ctx context.Context, q pay.UsedQuery) (pay.UsedAnswer, error) {
	return of(all, q.Network, func(c Reader) (pay.UsedAnswer, error) { return c.Used(ctx, q) })
}

// AccountState is Client.AccountState of the network's RPC.
func (all Networks) AccountState(ctx context.Context, n x402.Network, owner x402.Address) (treasury.AccountState, error) {
	return of(all, n, func(c Reader) (treasury.AccountState, error) { return c.AccountState(ctx, n, owner) })
}

// Fees is Client.Fees of the network's RPC.
func (all Networks) Fees(ctx context.Context, n x402.Network) (treasury.Fees, error) {
	return of(all, n, func(c Reader) (treasury.Fees, error) { return c.Fees(ctx, n) })
}

// EstimateGas is Client.EstimateGas of the network's RPC.
func (all Networks) EstimateGas(ctx context.Context, n x402.Network, t treasury.Transaction) (uint64, error) {
	return of(all, n, func(c Reader) (uint64, error) { return c.EstimateGas(ctx, n, t) })
}

// DataFee is Client.DataFee of the network's RPC.
func (all Networks) DataFee(ctx context.Context, n x402.Network, t treasury.Transaction) (money.Amount, error) {
	return of(all, n, func(c Reader) (money.Amount, error) { return c.DataFee(ctx, n, t) })
}

// Send is Client.Send of the network's RPC.
func (all Networks) Send(ctx context.Context, n x402.Network, s treasury.SignedTransaction) error {
	_, err := of(all, n, func(c Reader) (struct{}, error) { return struct{}{}, c.Send(ctx, n, s) })
	return err
}

// Mined is Client.Mined of the network's RPC.
func (all Networks) Mined(ctx context.Context, n x402.Network, hash string) (*treasury.MinedTransaction, error) {
	return of(all, n, func(c Reader) (*treasury.MinedTransaction, error) { return c.Mined(ctx, n, hash) })
}

// LastBefore is Client.LastBefore of the network's RPC.
func (all Networks) LastBefore(ctx context.Context, n x402.Network, moment time.Time) (pay.ChainBlock, error) {
	return of(all, n, func(c Reader) (pay.ChainBlock, error) { return c.LastBefore(ctx, n, moment) })
}

// BlockTime is Client.BlockTime of the network's RPC.
func (all Networks) BlockTime(ctx context.Context, n x402.Network, number uint64) (time.Time, error) {
	return of(all, n, func(c Reader) (time.Time, error) { return c.BlockTime(ctx, n, number) })
}

// BalanceAt is Client.BalanceAt of the network's RPC.
func (all Networks) BalanceAt(
	ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address, b pay.ChainBlock,
) (money.Amount, error) {
	return of(all, n, func(c Reader) (money.Amount, error) { return c.BalanceAt(ctx, n, a, owner, b) })
}

// Transfers is Client.Transfers of the network's RPC.
func (all Networks) Transfers(ctx context.Context, q treasury.TransfersQuery) (treasury.TransfersAnswer, error) {
	return of(all, q.Network, func(c Reader) (treasury.TransfersAnswer, error) { return c.Transfers(ctx, q) })
}
