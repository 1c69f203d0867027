package evm

import (
	"errors"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// Payment programs match on these texts.
const (
	notYetValid    = "FiatTokenV2: authorization is not yet valid"
	expired        = "FiatTokenV2: authorization is expired"
	usedOrCanceled = "FiatTokenV2: authorization is used or canceled"
	badSignature   = "FiatTokenV2: invalid signature"
	notThePayee    = "FiatTokenV2: caller must be the payee"
	tooLittle      = "ERC20: transfer amount exceeds balance"
)

// Methods that the token overloads; see transferWithAuth.
const (
	transferAuthBytes = "transferWithAuthorization"
	receiveAuth       = "receiveWithAuthorization0"
	receiveAuthBytes  = "receiveWithAuthorization"
	cancelAuthBytes   = "cancelAuthorization0"
)

// wantRevert checks that an error is a refusal with the given text, and whether it happened on chain.
func wantRevert(t *testing.T, err error, reason string, mined bool) {
	t.Helper()
	var revert *RevertError
	if !errors.As(err, &revert) {
		t.Fatalf("got %v, want the revert %q", err, reason)
	}
	if revert.Reason != reason {
		t.Errorf("reverted with %q, want %q", revert.Reason, reason)
	}
	if (revert.Tx != "") != mined {
		t.Errorf("revert names transaction %q; mined is %v", revert.Tx, mined)
	}
}

func TestTokenDescribesItself(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	ctx := bounded(t)
	for signature, want := range map[string]string{"name": "USD Coin", "symbol": "USDC", "version": "2"} {
		if got, err := read[string](ctx, c, signature); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", signature, got, err, want)
		}
	}
	if got, err := read[uint8](ctx, c, "decimals"); err != nil || got != 6 {
		t.Errorf("decimals() is %d (%v), want 6", got, err)
	}
	if got, err := read[common.Address](ctx, c, "minter"); err != nil || got != c.op.address {
		t.Errorf("minter() is %s (%v), want the operator %s", got, err, c.op.address)
	}
	// USDC's domain separator on Base.
	want := "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"
	if got, err := read[[32]byte](ctx, c, "DOMAIN_SEPARATOR"); err != nil || hexutil.Encode(got[:]) != want {
		t.Errorf("DOMAIN_SEPARATOR() is %x (%v), want %s", got, err, want)
	}
	for signature, preimage := range map[string]string{
		"TRANSFER_WITH_AUTHORIZATION_TYPEHASH": "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
		"RECEIVE_WITH_AUTHORIZATION_TYPEHASH":  "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
		"CANCEL_AUTHORIZATION_TYPEHASH":        "CancelAuthorization(address authorizer,bytes32 nonce)",
	} {
		if got, err := read[[32]byte](ctx, c, signature); err != nil || got != crypto.Keccak256Hash([]byte(preimage)) {
			t.Errorf("%s is %x (%v)", signature, got, err)
		}
	}
}

func TestTransferWithAuthorization(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	ctx := bounded(t)
	payer, seller := funded(t, c, 1000), newAccount(t)
	auth := authorize(t, payer.address, seller.address, 250)
	signature := payer.sign(t, auth)

	if err := c.Simulate(ctx, auth, signature); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, c, seller.address, 0)
	if used, err := c.AuthorizationState(ctx, payer.address, auth.Nonce); err != nil || used {
		t.Errorf("before the transfer the nonce is used: %v (%v)", used, err)
	}
	tx, err := c.TransferWithAuthorization(ctx, auth, signature)
	if err != nil {
		t.Fatal(err)
	}
	wantBalance(t, c, payer.address, 750)
	wantBalance(t, c, seller.address, 250)
	if used, err := c.AuthorizationState(ctx, payer.address, auth.Nonce); err != nil || !used {
		t.Errorf("after the transfer the nonce is used: %v (%v)", used, err)
	}
	receipt, err := dial(t, c).TransactionReceipt(ctx, common.HexToHash(tx))
	if err != nil {
		t.Fatal(err)
	}
	if receipt.Status != 1 || len(receipt.Logs) != 2 {
		t.Errorf("receipt has status %d and %d logs, want 1 and AuthorizationUsed and Transfer", receipt.Status, len(receipt.Logs))
	}

	transfers, err := c.Transfers(ctx, &payer.address, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(transfers) != 1 || transfers[0].To != seller.address || transfers[0].Value.Int64() != 250 ||
		transfers[0].Tx != tx || transfers[0].Block != receipt.BlockNumber.Uint64() {
		t.Errorf("transfers from the payer: %+v", transfers)
	}
	if transfers, err = c.Transfers(ctx, nil, &payer.address, 0); err != nil || len(transfers) != 1 || transfers[0].From != (common.Address{}) {
		t.Errorf("transfers to the payer: %+v (%v), want the minting", transfers, err)
	}
	if transfers, err = c.Transfers(ctx, nil, nil, receipt.BlockNumber.Uint64()+1000); err != nil || len(transfers) != 0 {
		t.Errorf("transfers of the future: %+v (%v)", transfers, err)
	}
	used, err := c.AuthorizationsUsed(ctx, payer.address)
	if err != nil || len(used) != 1 || used[0].Nonce != [32]byte(auth.Nonce) || used[0].Tx != tx {
		t.Errorf("authorizations used: %+v (%v)", used, err)
	}
}

func TestRefusedAuthorizations(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	ctx := bounded(t)
	payer, seller, stranger := funded(t, c, 1000), newAccount(t), newAccount(t)
	in := func(d time.Duration) uint64 { return unix(time.Now().Add(d)) }
	order, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)

	for _, test := range []struct {
		name   string
		change func(*x402.Authorization)
		sign   func(x402.Authorization) [65]byte
		reason string
	}{
		{name: "not yet valid", reason: notYetValid, change: func(a *x402.Authorization) { a.ValidAfter = in(time.Hour) }},
		{name: "expired", reason: expired, change: func(a *x402.Authorization) { a.ValidBefore = in(-time.Minute) }},
		{name: "expired just now", reason: expired, change: func(a *x402.Authorization) { a.ValidBefore = in(0) }},
		{name: "more than owned", reason: tooLittle, change: func(a *x402.Authorization) { a.Value = money.New(1001) }},
		{name: "all there could be", reason: tooLittle, change: func(a *x402.Authorization) {
			a.Value, _ = money.FromBig(new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)))
		}},
		{name: "to nobody", reason: "ERC20: transfer to the zero address", change: func(a *x402.Authorization) { a.To = x402.Address{} }},
		{name: "other signer", reason: badSignature, sign: func(a x402.Authorization) [65]byte { return stranger.sign(t, a) }},
		{name: "other value signed", reason: badSignature, sign: func(a x402.Authorization) [65]byte {
			a.Value = money.New(1)
			return payer.sign(t, a)
		}},
		{name: "other type signed", reason: badSignature, sign: func(a x402.Authorization) [65]byte {
			return payer.signAs(t, "ReceiveWithAuthorization", a)
		}},
		{name: "high s", reason: "ECRecover: invalid signature 's' value", sign: func(a x402.Authorization) [65]byte {
			signature := payer.sign(t, a)
			s := new(big.Int).SetBytes(signature[32:64])
			new(big.Int).Sub(order, s).FillBytes(signature[32:64])
			signature[64] ^= 27 ^ 28
			return signature
		}},
		{name: "v of 0 or 1", reason: "ECRecover: invalid signature 'v' value", sign: func(a x402.Authorization) [65]byte {
			signature := payer.sign(t, a)
			signature[64] -= 27
			return signature
		}},
		{name: "empty signature", reason: "ECRecover: invalid signature 'v' value", sign: func(x402.Authorization) [65]byte { return [65]byte{} }},
		{name: "r of 0", reason: "ECRecover: invalid signature", sign: func(x402.Authorization) [65]byte { return [65]byte{63: 1, 64: 27} }},
		{
			name: "time before signature", reason: expired, change: func(a *x402.Authorization) { a.ValidBefore = in(-time.Minute) },
			sign: func(a x402.Authorization) [65]byte { return stranger.sign(t, a) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			auth := authorize(t, payer.address, seller.address, 10)
			if test.change != nil {
				test.change(&auth)
			}
			sign := test.sign
			if sign == nil {
				sign = func(a x402.Authorization) [65]byte { return payer.sign(t, a) }
			}
			signature := sign(auth)
			wantRevert(t, c.Simulate(ctx, auth, signature), test.reason, false)
			tx, err := c.TransferWithAuthorization(ctx, auth, signature)
			wantRevert(t, err, test.reason, false)
			if tx != "" {
				t.Errorf("a refused authorization was sent as %s", tx)
			}
		})
	}
	wantBalance(t, c, payer.address, 1000)
	wantBalance(t, c, seller.address, 0)
}

func TestValidityWindowIsExclusive(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	payer := funded(t, c, 10)
	client, ctx := dial(t, c), bounded(t)
	head, err := client.HeaderByNumber(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := head.Time
	to := c.TokenAddress()
	for _, test := range []struct {
		after, before uint64
		reason        string
	}{
		{at - 1, at + 1, ""},
		{at, at + 1, notYetValid},
		{at - 1, at, expired},
	} {
		auth := authorize(t, payer.address, common.Address{1}, 1)
		auth.ValidAfter, auth.ValidBefore = test.after, test.before
		data, err := c.packTransfer(auth, payer.sign(t, auth))
		if err != nil {
			t.Fatal(err)
		}
		// The call runs on the state and at the time of that block.
		_, err = client.CallContract(ctx, ethereum.CallMsg{To: &to, Data: data}, head.Number)
		if test.reason != "" {
			wantRevert(t, asRevert(err), test.reason, false)
		} else if err != nil {
			t.Errorf("refused inside its window: %v", err)
		}
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	ctx := bounded(t)
	payer, seller := funded(t, c, 1000), newAccount(t)
	auth := authorize(t, payer.address, seller.address, 10)
	signature := payer.sign(t, auth)
	if _, err := c.TransferWithAuthorization(ctx, auth, signature); err != nil {
		t.Fatal(err)
	}
	_, err := c.TransferWithAuthorization(ctx, auth, signature)
	wantRevert(t, err, usedOrCanceled, false)

	// Without a trial the call is sent, and fails on chain for the same reason.
	data, err := c.packTransfer(auth, signature)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.transact(ctx, c.TokenAddress(), nil, data)
	wantRevert(t, err, usedOrCanceled, true)
	wantBalance(t, c, seller.address, 10)
}

func TestCancelAuthorization(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	ctx := bounded(t)
	payer, stranger := funded(t, c, 1000), newAccount(t)
	auth := authorize(t, payer.address, common.Address{1}, 10)

	_, err := c.CancelAuthorization(ctx, payer.address, auth.Nonce, stranger.signCancel(t, auth.Nonce))
	wantRevert(t, err, badSignature, false)
	if tx, err := c.CancelAuthorization(ctx, payer.address, auth.Nonce, payer.signCancel(t, auth.Nonce)); err != nil || tx == "" {
		t.Fatal(tx, err)
	}
	if state, err := c.AuthorizationState(ctx, payer.address, auth.Nonce); err != nil || !state {
		t.Errorf("state after cancel: %v (%v)", state, err)
	}
	_, err = c.TransferWithAuthorization(ctx, auth, payer.sign(t, auth))
	wantRevert(t, err, usedOrCanceled, false)
	_, err = c.CancelAuthorization(ctx, payer.address, auth.Nonce, payer.signCancel(t, auth.Nonce))
	wantRevert(t, err, usedOrCanceled, false)
	if used, err := c.AuthorizationsUsed(ctx, payer.address); err != nil || len(used) != 0 {
		t.Errorf("a canceled authorization counts as used: %+v (%v)", used, err)
	}
	canceled, err := c.logs(ctx, 0, "AuthorizationCanceled", indexed(&payer.address))
	if err != nil || len(canceled) != 1 || canceled[0].Topics[2] != common.Hash(auth.Nonce) {
		t.Errorf("AuthorizationCanceled events: %+v (%v)", canceled, err)
	}
	wantBalance(t, c, payer.address, 1000)
}

// tryAs calls the token from an account without sending a transaction.
func tryAs(t *testing.T, c *Chain, from common.Address, data []byte) error {
	t.Helper()
	to := c.TokenAddress()
	_, err := c.client.CallContract(bounded(t), ethereum.CallMsg{From: from, To: &to, Data: data}, nil)
	return asRevert(err)
}

func TestTokenBesidesAuthorizations(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	client, ctx := dial(t, c), bounded(t)
	owner, spender, payee := funded(t, c, 1000), newAccount(t), newAccount(t)
	var wg sync.WaitGroup
	for _, a := range []account{owner, spender, payee} {
		wg.Go(func() {
			if err := c.FundETH(ctx, a.address, big.NewInt(1e18)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	to := c.TokenAddress()
	send := func(t *testing.T, from account, data []byte) {
		t.Helper()
		if receipt := from.send(t, client, &to, data); receipt.Status != 1 {
			t.Fatal("reverted on chain")
		}
	}
	packAuth := func(t *testing.T, method string, auth x402.Authorization, sig [65]byte) []byte {
		t.Helper()
		args := []any{
			common.Address(auth.From.EVM()), common.Address(auth.To.EVM()), auth.Value.Big(),
			new(big.Int).SetUint64(auth.ValidAfter), new(big.Int).SetUint64(auth.ValidBefore), auth.Nonce,
		}
		if method != receiveAuth {
			return pack(t, c, method, append(args, sig[:])...)
		}
		r, s, v := split(sig)
		return pack(t, c, method, append(args, v, r, s)...)
	}

	send(t, owner, pack(t, c, "transfer", payee.address, big.NewInt(100)))
	wantBalance(t, c, payee.address, 100)
	wantRevert(t, tryAs(t, c, owner.address, pack(t, c, "transfer", payee.address, big.NewInt(901))), tooLittle, false)

	send(t, owner, pack(t, c, "approve", spender.address, big.NewInt(50)))
	send(t, spender, pack(t, c, "transferFrom", owner.address, payee.address, big.NewInt(30)))
	wantBalance(t, c, payee.address, 130)
	if left, err := read[*big.Int](ctx, c, "allowance", owner.address, spender.address); err != nil || left.Int64() != 20 {
		t.Errorf("allowance left: %s (%v), want 20", left, err)
	}
	wantRevert(t, tryAs(t, c, spender.address, pack(t, c, "transferFrom", owner.address, payee.address, big.NewInt(21))),
		"ERC20: transfer amount exceeds allowance", false)
	wantRevert(t, tryAs(t, c, owner.address, pack(t, c, "mint", owner.address, big.NewInt(1))),
		"FiatToken: caller is not a minter", false)
	wantRevert(t, c.Fund(ctx, payee.address, new(big.Int)), "FiatToken: mint amount not greater than 0", true)

	auth := authorize(t, owner.address, payee.address, 5)
	send(t, spender, packAuth(t, transferAuthBytes, auth, owner.sign(t, auth)))
	wantBalance(t, c, payee.address, 135)
	for i, signature := range []string{receiveAuth, receiveAuthBytes} {
		auth := authorize(t, owner.address, payee.address, 5)
		data := packAuth(t, signature, auth, owner.signAs(t, "ReceiveWithAuthorization", auth))
		wantRevert(t, tryAs(t, c, spender.address, data), notThePayee, false)
		send(t, payee, data)
		wantBalance(t, c, payee.address, int64(140+5*i))
		wantRevert(t, tryAs(t, c, payee.address, data), usedOrCanceled, false)
	}
	nonce := newNonce(t)
	cancel := owner.signCancel(t, nonce)
	send(t, spender, pack(t, c, cancelAuthBytes, owner.address, nonce, cancel[:]))
	if state, err := c.AuthorizationState(ctx, owner.address, nonce); err != nil || !state {
		t.Errorf("state after cancel: %v (%v)", state, err)
	}
	short := pack(t, c, cancelAuthBytes, owner.address, newNonce(t), cancel[:64])
	wantRevert(t, tryAs(t, c, spender.address, short), "ECRecover: invalid signature length", false)
}

func TestWalletContractsSign(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	client, ctx := dial(t, c), bounded(t)
	deployer := newAccount(t)
	if err := c.FundETH(ctx, deployer.address, big.NewInt(1e18)); err != nil {
		t.Fatal(err)
	}
	// Contracts that answer every call with one word: EIP-1271's yes, and zero.
	for answer, reason := range map[string]string{"1626ba7e": "", "00000000": badSignature} {
		code := fmt.Sprintf("63%s60e01b60005260206000f3", answer) // store the word, return it
		create := common.FromHex(fmt.Sprintf("60%02x80600b6000396000f3%s", len(code)/2, code))
		wallet := deployer.send(t, client, nil, create).ContractAddress
		if err := c.Fund(ctx, wallet, big.NewInt(10)); err != nil {
			t.Fatal(err)
		}
		auth := authorize(t, wallet, common.Address{1}, 10)
		_, err := c.TransferWithAuthorization(ctx, auth, [65]byte{})
		if reason != "" {
			wantRevert(t, err, reason, false)
		} else if err != nil {
			t.Error(err)
		}
	}
}
