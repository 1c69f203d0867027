package adminapi_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/x402"
)

// realWorld is a world on a chain that really moves money.
type realWorld struct {
	*world
	chain  *evm.Chain
	client *ethclient.Client
	key    pay.Key
	wallet pay.Wallet
}

// newRealWorld makes a key whose wallet holds 2 USDC, and some ether.
func newRealWorld(t *testing.T, ether uint64, change ...func(*pay.Options)) *realWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	real, err := evm.Start(ctx, evm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := real.Close(); err != nil {
			t.Error(err)
		}
	})
	rpc, err := chain.New(chain.Options{URL: real.RPCURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rpc.Close)
	set := func(o *pay.Options) { o.Chain = chain.Networks{"base": rpc} }
	r := &realWorld{world: newWorld(t, append([]func(*pay.Options){set}, change...)...), chain: real}
	r.client, err = ethclient.DialContext(ctx, real.RPCURL())
	r.must(err)
	t.Cleanup(r.client.Close)
	r.key = r.world.key("research")
	r.wallet = r.walletOf(r.key)
	r.must(real.Fund(ctx, common.Address(r.wallet.Address.EVM()), big.NewInt(2_000_000)))
	if ether > 0 {
		r.must(real.FundETH(ctx, common.Address(r.wallet.Address.EVM()), new(big.Int).SetUint64(ether)))
	}
	return r
}

// open journals and signs a payment of 0.01 USDC that its seller does not settle, and returns its payload.
func (r *realWorld) open(task string) (*pay.Payment, x402.Payload) {
	r.t.Helper()
	a, err := r.pays(r.key, pay.SettleSeller, task, 10_000, "https://api.example.com/x")
	r.must(err)
	return a.Payment(), a.Payload()
}

// moves has a seller settle a payload.
func (r *realWorld) moves(p x402.Payload) (string, error) {
	a, s, err := p.Authorization()
	r.must(err)
	return r.chain.TransferWithAuthorization(r.t.Context(), a, s)
}

func (r *realWorld) tokens() string {
	r.t.Helper()
	have, err := r.chain.Balance(r.t.Context(), common.Address(r.wallet.Address.EVM()))
	r.must(err)
	return have.String()
}

// account returns the wallet's wei, and the number of its transactions.
func (r *realWorld) account() (wei *big.Int, nonce uint64) {
	r.t.Helper()
	at := common.Address(r.wallet.Address.EVM())
	wei, err := r.client.BalanceAt(r.t.Context(), at, nil)
	r.must(err)
	nonce, err = r.client.NonceAt(r.t.Context(), at, nil)
	r.must(err)
	return wei, nonce
}

// used reads whether the token takes the authorization any more.
func (r *realWorld) used(p *pay.Payment) bool {
	r.t.Helper()
	used, err := r.chain.AuthorizationState(r.t.Context(), common.Address(r.wallet.Address.EVM()), p.Authorization.Nonce)
	r.must(err)
	return used
}

const someEther = 1e16

func TestCancelCommand(t *testing.T) {
	r := newRealWorld(t, someEther)
	first, payload := r.open("1")
	second, other := r.open("2")

	o := clitest.Line{Environ: []string{"PURSER_ADMIN=unix/" + r.socket}, Stdin: strings.NewReader("no\n")}.Run(t, "wallets", "cancel", r.wallet.ID)
	if o.Status != 1 || !strings.Contains(o.Stderr, "Cancel 2 authorizations, of 0.02 USDC together, from "+r.wallet.Address.String()+" on base. Each takes a transaction of the wallet, and up to 0.000") ||
		!strings.Contains(o.Stderr, "The wallet has 0.01 ETH. A transfer that comes first wins.") || !strings.Contains(o.Stderr, "nothing was canceled") {
		t.Fatalf("%+v", o)
	}
	if _, nonce := r.account(); nonce != 0 || r.used(first) || r.used(second) {
		t.Fatal("a plan has canceled something")
	}

	plan := decode[adminapi.CancelPlan](r.world, r.posted("/wallets/"+r.wallet.ID+"/cancel/plan", fmt.Sprintf(`{"payment":%q}`, first.ID)))
	got := ran[adminapi.Cancellations](r.world, "wallets cancel "+r.wallet.ID+" "+first.ID+" --yes")
	c := got.Cancellations[0]
	if len(got.Cancellations) != 1 || c.ID != first.ID || c.Result != adminapi.CancelFinal || c.Reason != "authorization canceled on chain" || got.Coin != "ETH" {
		t.Fatalf("canceled %+v", got)
	}
	wei, nonce := r.account()
	spent := new(big.Int).Sub(big.NewInt(someEther), wei)
	most, _ := new(big.Int).SetString(plan.Cost.Most, 10)
	if spent.String() != c.Cost || spent.Cmp(most) > 0 || spent.Sign() == 0 || nonce != 1 {
		t.Errorf("%s wei were spent, said %s, at most %s, by %d transactions", spent, c.Cost, most, nonce)
	}
	receipt, err := r.client.TransactionReceipt(t.Context(), common.HexToHash(c.CanceledBy))
	r.must(err)
	canceled := common.HexToHash("0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81") // AuthorizationCanceled(address,bytes32)
	if len(receipt.Logs) != 1 || receipt.Logs[0].Topics[0] != canceled || receipt.Logs[0].Topics[2] != common.Hash(first.Authorization.Nonce) {
		t.Errorf("events %+v", receipt.Logs)
	}
	if _, err := r.moves(payload); err == nil || !strings.Contains(err.Error(), "authorization is used or canceled") {
		t.Errorf("the seller's transfer: %v", err)
	}
	if r.tokens() != "2000000" || !r.used(first) || r.used(second) {
		t.Errorf("%s are left", r.tokens())
	}
	r.run("payments show "+first.ID, "void", "an operator cancels its authorization on the chain", "transaction "+c.CanceledBy+" cancels its authorization", "authorization canceled on chain")
	r.run("audit", "payment.cancel")
	r.run("wallets cancel "+r.wallet.ID+" "+first.ID+" --yes", "canceled") // the same order again
	if _, nonce := r.account(); nonce != 1 {
		t.Errorf("%d transactions after a repeat", nonce)
	}

	o = clitest.Line{Environ: []string{"PURSER_ADMIN=unix/" + r.socket}, Stdin: strings.NewReader("yes\n")}.Run(t, "wallets", "cancel", r.wallet.Address.String())
	if o.Status != 0 || !strings.Contains(o.Stdout, second.ID) || !strings.Contains(o.Stderr, "Cancel the authorization of 0.01 USDC from ") || !r.used(second) {
		t.Errorf("%+v", o)
	}
	if _, err := r.moves(other); err == nil {
		t.Error("what is canceled was moved")
	}
	r.run("wallets cancel "+r.wallet.ID+" --yes", "nothing can take money out of it")
	r.run("wallets authorizations "+r.wallet.ID, "nothing is reserved")
}

// posted posts a body, and returns the answer, which must be 200.
func (w *world) posted(path, body string) string {
	w.t.Helper()
	status, text := w.send("POST", path, "application/json", body)
	if status != 200 {
		w.t.Fatalf("%s: %d %s", path, status, text)
	}
	return text
}

// The seller's transfer is there first. No gas is spent, and the payment is booked.
func TestCancelCommandThatComesTooLate(t *testing.T) {
	r := newRealWorld(t, someEther)
	p, payload := r.open("")
	transaction, err := r.moves(payload)
	r.must(err)
	got := ran[adminapi.Cancellations](r.world, "wallets cancel "+r.wallet.ID+" "+p.ID+" --yes")
	if c := got.Cancellations[0]; c.Result != adminapi.CancelMoved || c.State != pay.Settled || c.Transaction != transaction || c.CanceledBy != "" || c.Refused == "" {
		t.Errorf("canceled %+v", c)
	}
	if wei, nonce := r.account(); nonce != 0 || wei.Uint64() != someEther {
		t.Errorf("%s wei are left after %d transactions", wei, nonce)
	}
	if r.tokens() != "1990000" {
		t.Errorf("%s are left", r.tokens())
	}
	r.fails(map[string]string{"wallets cancel " + r.wallet.ID + " " + p.ID + " --yes": "it is settled, so its money has moved"})
}

func TestCancelCommandWithoutGas(t *testing.T) {
	r := newRealWorld(t, 0)
	p, _ := r.open("")
	text := "the wallet " + r.wallet.Address.String() + " needs up to 0.000"
	r.fails(map[string]string{
		"wallets cancel " + r.wallet.ID:                                                 text,
		"wallets cancel " + r.wallet.ID + " " + p.ID + " --yes":                         "on base for gas, and has 0 ETH: send it some ETH",
		"wallets cancel " + r.wallet.ID + " --yes --max-fee 0.0000001":                  "more than the 0.0000001 ETH that it may",
		"wallets cancel " + r.wallet.ID + " --yes --max-fee x":                          "--max-fee: ",
		"wallets cancel " + r.wallet.ID + " 0199 --yes":                                 "no payment has the id",
		"wallets cancel 0199 --yes":                                                     "no wallet has the id or address",
		"wallets cancel " + r.wallet.ID + " pk_secret --yes":                            "PAYMENT is an API key itself",
		"wallets cancel " + r.walletOf(r.world.key("other")).ID + " " + p.ID + " --yes": "it draws from the wallet " + r.wallet.ID,
	})
	path := "/wallets/" + r.wallet.ID + "/cancel"
	r.answers(
		request{"POST", path, `{"payment":"0199"}`, 404, "no payment has the id"},
		request{"POST", path, `{"max_fee":"1.5"}`, 400, "max_fee"},
		request{"POST", path, `{"max_cost":"0.1"}`, 400, "max_cost"},
		request{"POST", path, `{"max_cost":"1"}`, 400, "by the word of the RPC, more than the 0.000000000000000001 ETH that it may"},
		request{"POST", path, `{"fee":1}`, 400, "fee"},
		request{"POST", path, `{}`, 409, "needs up to"},
		request{"GET", path, "", 405, ""},
	)

	// Any account can send what is signed.
	got := ran[adminapi.Cancellations](r.world, "wallets cancel "+r.wallet.ID+" --sign-only --yes").Cancellations[0]
	if got.Result != adminapi.CancelSigned || got.Call.Function != "cancelAuthorization" || got.Call.Contract != tokens || got.Call.Cancellation.Nonce != p.Authorization.Nonce {
		t.Fatalf("signed %+v", got)
	}
	signature, err := x402.ParseSignature(got.Call.Signature)
	r.must(err)
	if want := "0x" + hex.EncodeToString(got.Call.Cancellation.Call(signature)); want != got.Call.Data || !strings.HasPrefix(want, "0x5a049a70") {
		t.Errorf("data %s, want %s", got.Call.Data, want)
	}
	_, err = r.chain.CancelAuthorization(t.Context(), common.Address(r.wallet.Address.EVM()), p.Authorization.Nonce, signature)
	r.must(err)
	if !r.used(p) {
		t.Error("it is not canceled")
	}
	r.run("payments show "+p.ID, "an operator has got the signed cancellation of its authorization", "its payload is not sent again")
	if _, err := r.Payer.RecoverOnce(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCancelCommandWithoutRPC(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	wallet := w.walletOf(k)
	w.leaves(k, 0)
	w.fails(map[string]string{
		"wallets cancel " + wallet.ID:            "a transaction needs an RPC of base (PURSER_RPC_URL), and none is configured",
		"wallets cancel " + wallet.ID + " --yes": "a transaction needs an RPC of base (PURSER_RPC_URL), and none is configured",
	})
	w.run("wallets cancel "+wallet.ID+" --sign-only --yes", "signed, not sent", "cancelAuthorization", "0x5a049a70", "nonce")
}
