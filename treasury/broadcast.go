package treasury

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	// minedWait bounds the wait for the block of a transaction. After it the operator asks again.
	minedWait = 90 * time.Second
	minedPoll = 500 * time.Millisecond
	// broadcastTries bounds the nonces that are tried for one call.
	broadcastTries = 3
)

// ErrNoTransactions: the wallet provider signs typed data only.
var ErrNoTransactions = pay.CodedError(pay.CodeNoTransactions, "the signer of this wallet signs no transactions: purser cannot send one from it")

// RPCError: a question that a transaction needs had no answer. Cause tells why.
type RPCError struct {
	Setting string // names the RPC for operators
	Cause   error
}

func (e *RPCError) Error() string {
	return "the RPC (" + e.Setting + ") did not answer: " + e.Cause.Error()
}
func (e *RPCError) Unwrap() error          { return e.Cause }
func (*RPCError) ErrorCode() pay.ErrorCode { return pay.CodeRPC }

// broadcast sends transactions of one wallet, one after another.
type broadcast struct {
	treasury Treasury
	wallet   pay.Wallet
	network  x402.Network
	asset    x402.Asset
	chain    TransactionChain
	signer   TransactionSigning
	maxFee   *money.Amount // that the operator has agreed to, in wei for a unit of gas; nil: any
	maxCost  *money.Amount // of one transaction, in wei; nil: any

	fees Fees
	next uint64                  // the nonce behind the last one that was sent
	owed map[uint64]money.Amount // what each that was sent may cost, in wei, by its nonce
}

// broadcaster checks whether transactions of a wallet can be sent, and asks for what they cost now.
func (t Treasury) broadcaster(ctx context.Context, w pay.Wallet) (*broadcast, error) {
	b := &broadcast{treasury: t, wallet: w, owed: map[uint64]money.Amount{}}
	var ok bool
	switch b.network, ok = t.Network(w.Network); {
	case !ok:
		return nil, &pay.InputError{Field: "wallet", Reason: "its network " + w.Network + " is not configured"}
	case b.network.Rail != 0:
		return nil, &pay.InputError{Field: "wallet", Reason: "purser makes no such transactions on " + b.network.Title + ": Permit2 is not used there, and nothing can be canceled. What was signed dies within seconds"}
	case w.Address == nil:
		return nil, pay.ErrNoAddress
	}
	b.asset = b.network.Assets[0]
	if err := t.provides(w); err != nil {
		return nil, err
	}
	if b.signer, ok = t.Wallets.(TransactionSigning); !ok {
		return nil, ErrNoTransactions
	}
	if b.chain, ok = t.Chain.(TransactionChain); !ok {
		return nil, t.noRPC(b.network)
	}
	switch err := t.payer.CheckChain(ctx, b.network, b.asset); {
	case errors.Is(err, pay.ErrUnwatched):
		return nil, t.noRPC(b.network)
	case err != nil:
		return nil, b.unanswered(err)
	}
	var err error
	if b.fees, err = b.chain.Fees(ctx, b.network); err != nil {
		return nil, b.unanswered(err)
	}
	return b, nil
}

// bound sets what the operator has agreed to. An RPC can name any tip, and the wallet pays it: if no
// person has seen a price, the network's bound holds.
func (b *broadcast) bound(fee, cost *money.Amount) {
	if fee == nil && cost == nil {
		most := money.New(b.network.GasBound)
		cost = &most
	}
	b.maxFee, b.maxCost = fee, cost
}

// agreed checks new terms of a transaction against what the operator has agreed to: *InputError.
func (b *broadcast) agreed(t pay.TransactionTerms, cost money.Amount) error {
	switch {
	case b.maxFee != nil && t.MaxFee.Cmp(*b.maxFee) > 0:
		return &pay.InputError{Field: "max_fee", Reason: fmt.Sprintf("gas costs %s wei by now, more than the %s that were agreed to: ask again", t.MaxFee, b.maxFee)}
	case b.maxCost != nil && cost.Cmp(*b.maxCost) > 0:
		return &pay.InputError{Field: "max_fee", Reason: fmt.Sprintf("a transaction would cost up to %s by the word of the RPC, more than the %s that it may: look at the price and agree to it, or set another bound",
			FormatCoins(cost, b.network), FormatCoins(*b.maxCost, b.network))}
	}
	return nil
}

// provides checks that the provider in use has made the wallet: *InputError.
func (t Treasury) provides(w pay.Wallet) error {
	if made, used := w.Provider(), t.Wallets.Name(); made != used {
		return &pay.InputError{Field: "wallet", Reason: "its key is with " + made + ", and the wallet provider in use is " + used}
	}
	return nil
}

func (t Treasury) noRPC(n x402.Network) error {
	return pay.CodedError(pay.CodeNoChain, "a transaction needs an RPC of "+n.Name+" ("+t.payer.RPCSetting(n.Name)+"), and none is configured")
}

func (b *broadcast) unanswered(err error) error {
	if is[*RejectedError](err) {
		return err
	}
	return &RPCError{Setting: b.treasury.payer.RPCSetting(b.network.Name), Cause: err}
}

// call is a call of the token by the wallet.
func (b *broadcast) call(data []byte) Transaction {
	return Transaction{ChainID: b.network.ChainID, From: *b.wallet.Address, To: b.asset.Address, Data: data}
}

// send brings a call onto the chain, and returns the hash of its transaction; mined is set if that is in
// a block already. t has the terms of an earlier try, if there was one: then the same transaction is
// sent again, unless the chain has it, or has another one in its place. keep makes new terms durable
// before anything is signed. *RevertError: the contract would refuse the call, and nothing was sent.
func (b *broadcast) send(ctx context.Context, t Transaction, keep func(pay.TransactionTerms) error) (hash string, mined *MinedTransaction, err error) {
	for try := 1; ; try++ {
		if t.Gas > 0 {
			if hash, mined, err = b.look(ctx, &t); err != nil || mined != nil {
				return hash, mined, err
			}
		}
		was := t.TransactionTerms
		if err = b.price(ctx, &t); err != nil {
			return "", nil, err
		}
		if t.TransactionTerms != was {
			if err = keep(t.TransactionTerms); err != nil {
				return "", nil, err
			}
		}
		failpoint.Here(failpoint.TransactionKept)
		signed, err := b.sign(ctx, t)
		if err != nil {
			return "", nil, err
		}
		failpoint.Here(failpoint.TransactionSigned)
		err = b.chain.Send(ctx, b.network, signed)
		failpoint.Here(failpoint.TransactionSent)
		if err == nil {
			b.next, b.owed[t.Nonce] = t.Nonce+1, t.MaxFee.TimesSaturated(t.Gas)
			b.treasury.Logger.InfoContext(ctx, "transaction sent", "wallet", b.wallet.ID, "network", b.network.Name, "transaction", signed.Hash, "nonce", t.Nonce)
			return signed.Hash, nil, nil
		}
		// That of an earlier try may wait under another hash: not each signer signs twice alike.
		earlier := was.Gas > 0
		if try == broadcastTries || earlier || !is[*RejectedError](err) || !b.taken(ctx, t.Nonce) {
			return signed.Hash, nil, b.unanswered(err)
		}
		t.TransactionTerms = pay.TransactionTerms{} // another transaction of the account has the nonce
	}
}

// taken reports whether the RPC knows a transaction with a nonce of the account.
func (b *broadcast) taken(ctx context.Context, nonce uint64) bool {
	have, err := b.chain.AccountState(ctx, b.network, *b.wallet.Address)
	b.next = 0 // it was wrong, or another program uses the account
	return err == nil && have.Sent > nonce
}

// look asks the chain about the transaction of an earlier try. If that failed, or another one of the
// account is in its place, the terms are taken away.
func (b *broadcast) look(ctx context.Context, t *Transaction) (hash string, mined *MinedTransaction, err error) {
	signed, err := b.sign(ctx, *t)
	if err != nil {
		return "", nil, err
	}
	have, err := b.chain.AccountState(ctx, b.network, t.From)
	if err == nil {
		mined, err = b.chain.Mined(ctx, b.network, signed.Hash)
	}
	switch {
	case err != nil:
		return "", nil, b.unanswered(err)
	case mined != nil && mined.OK:
		return signed.Hash, mined, nil
	case mined != nil, have.Mined > t.Nonce:
		t.TransactionTerms = pay.TransactionTerms{}
	}
	return "", nil, nil
}

// price gives a call its terms, or raises fees that do not suffice any more. It checks that the wallet
// can pay them.
func (b *broadcast) price(ctx context.Context, t *Transaction) error {
	now, most, was := b.fees.now(), b.fees.most(), t.TransactionTerms
	if b.maxFee != nil && now.Cmp(*b.maxFee) > 0 {
		return &pay.InputError{Field: "max_fee", Reason: fmt.Sprintf("gas costs %s wei by now, more than the %s that were agreed to: ask again", now, b.maxFee)}
	}
	if b.maxFee != nil && most.Cmp(*b.maxFee) > 0 {
		most = *b.maxFee
	}
	have, err := b.chain.AccountState(ctx, b.network, t.From)
	if err != nil {
		return b.unanswered(err)
	}
	switch {
	case t.Gas == 0:
		gas, err := b.chain.EstimateGas(ctx, b.network, *t)
		if is[*RevertError](err) {
			return err
		}
		if err != nil {
			return b.unanswered(err)
		}
		t.TransactionTerms = pay.TransactionTerms{Nonce: max(have.Sent, b.next), Gas: gas + gas/4, MaxFee: most, Tip: b.fees.Tip}
	case now.Cmp(t.MaxFee) > 0:
		// Nodes take a transaction in the place of another one if both fees are a tenth higher.
		t.MaxFee, t.Tip = larger(most, eighthMore(t.MaxFee)), larger(b.fees.Tip, eighthMore(t.Tip))
	}
	data, err := b.chain.DataFee(ctx, b.network, *t)
	if err != nil {
		return b.unanswered(err)
	}
	cost := costOf(t.Gas, t.MaxFee, data)
	if t.TransactionTerms != was { // the same ones were agreed to when they were kept
		if err := b.agreed(t.TransactionTerms, cost); err != nil {
			return err
		}
	}
	return b.affords(have, cost)
}

// costOf returns what a transaction costs at most. The price of data may double.
func costOf(gas uint64, fee, data money.Amount) money.Amount {
	return fee.TimesSaturated(gas).AddSaturated(data).AddSaturated(data)
}

// affords checks that an account can pay an amount beside what is sent and in no block: *GasError.
func (b *broadcast) affords(have AccountState, cost money.Amount) error {
	need := cost
	for nonce, owed := range b.owed {
		if nonce >= have.Mined {
			need = need.AddSaturated(owed)
		}
	}
	if need.Cmp(have.Coins) <= 0 {
		return nil
	}
	return &GasError{Wallet: *b.wallet.Address, Network: b.network, Need: need, Have: have.Coins}
}

func larger(a, b money.Amount) money.Amount {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

func eighthMore(a money.Amount) money.Amount {
	more := new(big.Int).Rsh(a.Big(), 3)
	eighth, _ := money.FromBig(more) // less than a
	return a.AddSaturated(eighth).AddSaturated(money.New(1))
}

func (b *broadcast) sign(ctx context.Context, t Transaction) (SignedTransaction, error) {
	signed, err := b.signer.SignTransaction(ctx, b.wallet, t)
	if err != nil {
		return SignedTransaction{}, fmt.Errorf("signing a transaction of wallet %s: %w", b.wallet.ProviderID, err)
	}
	return signed, nil
}

// await waits until a transaction is in a block. nil: it is in none yet.
func (b *broadcast) await(ctx context.Context, hash string, until time.Time) (*MinedTransaction, error) {
	for {
		mined, err := b.chain.Mined(ctx, b.network, hash)
		if mined != nil && err == nil {
			return mined, nil
		}
		if !time.Now().Before(until) || b.treasury.closing() {
			return nil, err
		}
		select {
		case <-time.After(minedPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
