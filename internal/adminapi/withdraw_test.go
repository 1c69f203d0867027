package adminapi_test

import (
	"context"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// rich is an RPC by which every wallet holds 2 USDC, and no authorization was used.
type rich struct{ pay.Chain }

func (rich) Identify(_ context.Context, n x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	return pay.ChainIdentity{ChainID: n.ChainID, Genesis: "0x" + strings.Repeat("1", 64)}, nil
}

func (rich) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	return money.New(2_000_000), nil
}

// Trace shows what went home: its withdrawals have moved.
func (rich) Trace(_ context.Context, q pay.TraceQuery) (pay.Trace, error) {
	return pay.Trace{
		Chain: pay.ChainIdentity{ChainID: q.Network.ChainID, Genesis: "0x" + strings.Repeat("1", 64)},
		Used:  strings.EqualFold(q.Authorization.To.String(), home),
	}, nil
}

const (
	home   = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" // of EIP-55
	tokens = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
)

func (w *world) walletOf(k pay.Key) pay.Wallet {
	w.t.Helper()
	list, err := w.Books.ListWallets(w.t.Context(), k)
	w.must(err)
	return list[0]
}

func TestWithdrawCommand(t *testing.T) {
	w := newWorld(t, func(o *pay.Options) { o.Chain = rich{} })
	k := w.key("research")
	wallet := w.walletOf(k)
	w.leaves(k, 0)
	o := clitest.Line{Environ: []string{"PURSER_ADMIN=unix/" + w.socket}, Stdin: strings.NewReader("no\n")}.Run(t, "wallets", "withdraw", wallet.ID, "--to", home, "--all")
	want := "Move 1.99 USDC from " + wallet.Address.String() + " to " + home + " on base. The wallet holds 2 USDC, of which 0.01 stays for open payments, the last one valid until 20"
	if o.Status != 1 || !strings.Contains(o.Stderr, want) || !strings.Contains(o.Stderr, "nothing was withdrawn") {
		t.Fatalf("%+v", o)
	}
	if n := len(get[adminapi.Payments](w, "/payments").Payments); n != 1 {
		t.Fatalf("%d payments after a plan", n)
	}
	got := ran[adminapi.Withdrawn](w, "wallets withdraw "+wallet.Address.String()+" --to "+home+" --amount 1.5 --yes")
	if got.State != pay.Settled || got.Amount != "1500000" || got.PayTo != home || got.Door != policy.DoorOperator || got.Earlier || got.Transfer != nil || got.Reserved != "10000" {
		t.Errorf("withdrawn %+v", got)
	}
	again := w.run("wallets withdraw "+wallet.ID+" --to "+home+" --amount 1.5 --yes", "by an earlier equal order", got.Transaction)
	if !strings.Contains(again, got.ID) {
		t.Errorf("the repeat: %s", again)
	}
	o = clitest.Line{Environ: []string{"PURSER_ADMIN=unix/" + w.socket}, Stdin: strings.NewReader("yes\n")}.Run(t, "wallets", "withdraw", wallet.ID, "--to", home, "--amount", "1.5")
	if o.Status != 0 || !strings.Contains(o.Stderr, "has moved 1.5 USDC to "+home+" already") {
		t.Errorf("%+v", o)
	}
	if other := ran[adminapi.Withdrawn](w, "wallets withdraw "+wallet.ID+" --to "+home+" --amount 1.5 --yes --again"); other.ID == got.ID {
		t.Error("--again makes no other one")
	}
	w.run("payments show "+got.ID, "as a withdrawal to "+home, "you asked for a withdrawal of ", "allowed by you for the key", "an equal order gets this payment until", "!caller")
	w.run("payments --host withdrawal", got.ID)
	w.run("spend --key "+k.ID, "withdrawal", "to "+home)
	w.run("audit", "wallet.withdraw")
	w.run("wallets authorizations "+wallet.ID, "0.01 USDC", "0x"+strings.Repeat("1", 40), "open")
}

func TestWithdrawCommandSignsOnly(t *testing.T) {
	w := newWorld(t, func(o *pay.Options) { o.Facilitator = nil })
	wallet := w.walletOf(w.key("research"))
	got := ran[adminapi.Withdrawn](w, "wallets withdraw "+wallet.ID+" --to "+home+" --amount 2 --yes")
	c := got.Transfer
	if got.State != pay.Open || c == nil || c.Contract != tokens || c.ChainID != 8453 || !strings.HasPrefix(c.Data, "0xe3ee160e") || len(c.Data) != 2+2*(4+9*32) {
		t.Fatalf("withdrawn %+v %+v", got, c)
	}
	base, _ := x402.NetworkByWire("base")
	signature, err := x402.ParseSignature(c.Signature)
	w.must(err)
	if from, err := x402.Recover(c.Authorization.Digest(base.Assets[0], base.ChainID), signature); err != nil || from != *wallet.Address {
		t.Errorf("signed by %s, %v", from, err)
	}
	w.run("wallets withdraw "+wallet.ID+" --to "+home+" --amount 2 --yes", "transferWithAuthorization", c.Data, c.Signature, "expires", "unknown: no RPC")
	w.fails(map[string]string{"wallets withdraw " + wallet.ID + " --to " + home + " --all --yes": "give an amount"})
}

func TestWithdrawCommandRefuses(t *testing.T) {
	w := newWorld(t, func(o *pay.Options) { o.Chain = rich{} })
	k, other := w.key("research"), w.key("other")
	wallet, second := w.walletOf(k), w.walletOf(other)
	of := "wallets withdraw " + wallet.ID + " --yes --to "
	w.fails(map[string]string{
		of + home:                                                "Either --amount or --all",
		of + home + " --all --amount 1":                          "Either --amount or --all",
		of + home + " --amount 0":                                "0 moves nothing",
		of + home + " --amount 2.000001":                         "2.000001 USDC is more than can be withdrawn: the wallet holds 2 USDC",
		of + home + " --amount x":                                "--amount",
		of + strings.ToLower(home[:10]) + home[10:] + " --all":   "checksum",
		of + "0x0000000000000000000000000000000000000000 --all":  "zero address",
		of + tokens + " --all":                                   "token's contract",
		of + wallet.Address.String() + " --all":                  "the wallet's own address",
		of + second.Address.String() + " --all":                  "purser's own wallet " + second.ID,
		"wallets withdraw 0199 --yes --all --to " + home:         "no wallet has the id or address",
		"wallets withdraw " + home + " --yes --all --to " + home: "no wallet has the id or address",
		"wallets withdraw " + wallet.ID + " --all":               "where to?",
		"wallets authorizations 0199":                            "no wallet has the id or address",
	})
	w.run(of+second.Address.String()+" --amount 0.5 --to-own", "settled")
	if n := len(get[adminapi.Payments](w, "/payments").Payments); n != 1 {
		t.Errorf("%d payments", n)
	}
	path := "/wallets/" + wallet.ID + "/withdraw"
	w.answers(
		request{"POST", path, `{"to":"` + home + `"}`, 400, "either an amount or all"},
		request{"POST", path, `{"to":"` + home + `","amount":"1.5"}`, 400, "amount"},
		request{"POST", path, `{"to":"0x12","all":true}`, 400, "to: not an address"},
		request{"POST", path, `{"to":"` + home + `","all":true,"fee":1}`, 400, "fee"},
		request{"GET", path, "", 405, ""},
	)
}
