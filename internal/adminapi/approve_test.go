package adminapi_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// allowance asks the token what Permit2 may move.
func (r *realWorld) allowance() string {
	r.t.Helper()
	base := r.Networks[0]
	got, err := r.Chain.(pay.Allowances).Allowance(r.t.Context(), base, base.Assets[0], *r.wallet.Address, x402.Permit2)
	r.must(err)
	return got.String()
}

func TestApproveCommand(t *testing.T) {
	r := newRealWorld(t, someEther)
	of := "wallets approve " + r.wallet.ID + " --amount "
	o := clitest.Line{Environ: []string{"PURSER_ADMIN=unix/" + r.socket}, Stdin: strings.NewReader("no\n")}.Run(t, "wallets", "approve", r.wallet.ID, "--amount", "1.5")
	if o.Status != 1 || !strings.Contains(o.Stderr, "Let Permit2 (0x000000000022D473030F116dDEE9F6B43aC78BA3) move up to 1.5 USDC from "+r.wallet.Address.String()+" on base. Now it may move 0. That takes a transaction of the wallet, and up to 0.000") ||
		!strings.Contains(o.Stderr, "The wallet has 0.01 ETH.") || !strings.Contains(o.Stderr, "nothing was approved") {
		t.Fatalf("%+v", o)
	}
	if r.allowance() != "0" {
		t.Error("a plan has approved something")
	}
	got := ran[adminapi.Approved](r.world, of+"1.5 --yes --network base")
	wei, nonce := r.account()
	if r.allowance() != "1500000" || got.Allowance != "1500000" || got.Was != "0" || !got.Mined || nonce != 1 ||
		new(big.Int).Sub(big.NewInt(someEther), wei).String() != got.Cost {
		t.Errorf("approved %+v", got)
	}
	receipt, err := r.client.TransactionReceipt(t.Context(), common.HexToHash(got.Transaction))
	r.must(err)
	approval := common.HexToHash("0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925") // Approval(address,address,uint256)
	if len(receipt.Logs) != 1 || receipt.Logs[0].Topics[0] != approval || common.BytesToAddress(receipt.Logs[0].Topics[2][:]) != common.Address(x402.Permit2.EVM()) {
		t.Errorf("events %+v", receipt.Logs)
	}
	r.run(of+"1.5 --yes", "may move 1.5 USDC", "none, because it may move that amount already")
	if _, nonce := r.account(); nonce != 1 {
		t.Errorf("%d transactions after a repeat", nonce)
	}
	r.run(of+"0 --yes", "may move 0 USDC", "before 1.5 USDC")
	if r.allowance() != "0" {
		t.Errorf("%s after it was taken away", r.allowance())
	}
	r.run(of+"1.5 --yes", "may move 1.5 USDC", "cost 0.000") // an order that was carried out before
	if r.allowance() != "1500000" {
		t.Errorf("%s after it was given again", r.allowance())
	}
	r.run("audit", "wallet.approve")
	if n := strings.Count(r.run("audit"), "wallet.approve"); n != 3 {
		t.Errorf("%d entries in the audit", n)
	}
	if r.tokens() != "2000000" {
		t.Errorf("%s are left", r.tokens())
	}
}

func TestApproveCommandRefuses(t *testing.T) {
	r := newRealWorld(t, 0)
	of := "wallets approve " + r.wallet.ID + " --yes "
	unlimited := "purser approves no unlimited amount"
	r.fails(map[string]string{
		of:                       "how much?",
		of + "--amount max":      unlimited,
		of + "--amount Infinite": unlimited,
		of + "--amount 340282366920938463463374607431768.211456": unlimited,
		of + "--amount 1.2345678":                                "--amount",
		of + "--amount -1":                                       "--amount",
		of + "--amount 1":                                        "on base for gas, and has 0 ETH: send it some ETH",
		of + "--amount 1 --max-fee 0.0000001":                    "more than the 0.0000001 ETH that it may",
		of + "--amount 1 --max-fee=":                             "--max-fee: ",
		of + "--amount 1 --network polygon":                      "network: the wallet is on base",
		"wallets approve 0199 --amount 1 --yes":                  "no wallet has the id or address",
		"wallets approve " + r.wallet.ID + " --amount 1":         "on base for gas, and has 0 ETH: send it some ETH",
	})
	path := "/wallets/" + r.wallet.ID + "/approve"
	r.answers(
		request{"POST", path, `{"amount":"115792089237316195423570985008687907853269984665640564039457584007913129639935"}`, 400, unlimited},
		request{"POST", path, `{"amount":"1","max_fee":"x"}`, 400, "max_fee"},
		request{"POST", path, `{"amount":"1.5"}`, 400, "amount"},
		request{"POST", path, `{}`, 400, "amount"},
		request{"POST", path, `{"amount":"1"}`, 409, "needs up to"},
	)
	if r.allowance() != "0" {
		t.Errorf("%s are allowed", r.allowance())
	}
}

// permit2 has a payment of 0.01 USDC through Permit2 signed, for a task of its own.
func (r *realWorld) permit2(task string) (*pay.Attempt, error) {
	r.t.Helper()
	c, err := x402.DecodeHeader(`{"x402Version":2,"accepts":[{"scheme":"exact","network":"eip155:8453","amount":"10000",
		"asset":"` + tokens + `","payTo":"` + home + `","maxTimeoutSeconds":60,
		"extra":{"name":"USD Coin","version":"2","assetTransferMethod":"permit2"}}]}`)
	r.must(err)
	a, err := r.Payer.Pay(r.t.Context(), pay.Request{
		Key: r.key, Door: policy.DoorAPI, Settlement: pay.SettleSeller, Task: task, Challenge: c, URL: "https://api.example.com/x",
	})
	if err == nil {
		paytest.Finish(r.t, r.Payer, a)
	}
	return a, err
}

// An approval lets payments through Permit2 be made, and the wallet's transaction takes one back.
func TestApproveAndCancelThroughPermit2(t *testing.T) {
	r := newRealWorld(t, someEther)
	if _, err := r.permit2("refused"); err == nil || !strings.Contains(err.Error(), "permit2_allowance_required") {
		t.Fatalf("without an approval: %v", err)
	}
	r.run("wallets approve "+r.wallet.ID+" --amount 1 --yes", "may move 1 USDC")
	moved, err := r.permit2("moved")
	r.must(err)
	left, err := r.permit2("left")
	r.must(err)
	settle := func(a *pay.Attempt) (string, error) {
		authorization, signature, err := a.Payload().Authorization()
		r.must(err)
		return r.chain.SettlePermit2(t.Context(), authorization, authorization.Value, signature)
	}
	transaction, err := settle(moved)
	r.must(err)
	if r.allowance() != "990000" || r.tokens() != "1990000" {
		t.Errorf("%s are allowed, %s are left", r.allowance(), r.tokens())
	}
	got := ran[adminapi.Cancellations](r.world, "wallets cancel "+r.wallet.ID+" "+left.Payment().ID+" --yes").Cancellations[0]
	if got.Result != adminapi.CancelFinal || got.CanceledBy == "" {
		t.Errorf("canceled %+v", got)
	}
	if _, err := settle(left); err == nil || r.tokens() != "1990000" {
		t.Errorf("what is canceled was moved: %s are left, %v", r.tokens(), err)
	}
	got = ran[adminapi.Cancellations](r.world, "wallets cancel "+r.wallet.ID+" --yes").Cancellations[0]
	if got.ID != moved.Payment().ID || got.Result != adminapi.CancelMoved || got.Transaction != transaction {
		t.Errorf("too late: %+v", got)
	}
}

func TestApproveCommandWithoutRPC(t *testing.T) {
	w := newWorld(t)
	w.fails(map[string]string{
		"wallets approve " + w.walletOf(w.key("research")).ID + " --amount 1 --yes": "a transaction needs an RPC of base (PURSER_RPC_URL), and none is configured",
	})
}
