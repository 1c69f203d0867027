package adminapi_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/ledger"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// onChain is a world whose facilitator moves money on a chain, in the middle of last month.
type onChain struct {
	*world
	chain *ledger.Ledger
	month string
}

func newOnChain(t *testing.T) *onChain {
	t.Helper()
	t.Parallel()
	now := time.Now().UTC()
	middle := time.Date(now.Year(), now.Month()-1, 15, 12, 0, 0, 0, time.UTC)
	late := now.Sub(middle)
	w := &onChain{month: middle.Format("2006-01")}
	clock := func() time.Time {
		if w.world == nil {
			return time.Now().Add(-late)
		}
		return w.now()
	}
	var err error
	if w.chain, err = ledger.Start(t.Context(), ledger.Options{Now: clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.chain.Close() })
	server := httptest.NewServer(honest.NewFacilitator(w.chain, clock))
	t.Cleanup(server.Close)
	rpc, err := chain.New(chain.Options{URL: w.chain.RPCURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rpc.Close)
	asks, err := facilitator.New(facilitator.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	made := newWorldIn(t, func(o *pay.Options) {
		o.Chain, o.Facilitator = rpc, asks
		o.Clock = func() time.Time { return clock() }
	})
	made.behind.Store(int64(late))
	w.world = made
	return w
}

func (w *onChain) fund(wallet pay.Wallet, amount int64) {
	w.t.Helper()
	w.must(w.chain.Fund(w.t.Context(), common.Address(wallet.Address.EVM()), big.NewInt(amount)))
}

func TestStatementAndExport(t *testing.T) {
	w := newOnChain(t)
	k, two := w.key("research"), w.key("=two\n; x")
	for _, key := range []pay.Key{k, two} {
		w.fund(w.walletOf(key), 5_000_000)
	}
	for range 3 {
		w.buys(k, 10_000, "https://api.example.com/report?token=t0ken")
	}
	w.buys(two, 250_000, "https://b.example/")
	w.run("wallets withdraw " + w.walletOf(k).ID + " --to " + home + " --amount 1 --yes")

	w.claims(k)
	text := w.run("statement "+w.month, "opening balance 0 ", "deposits 5 1\n", "payments -0.04 4\n", "corrections 0.01 1\n", "withdrawals -1 1\n", "closing balance 3.97\n", "on the chain 3.97 ",
		"equals the chain", "research 4 0.04 0.01 1\n", "payments -0.25 1\n", "closing balance 4.75\n")
	if strings.Count(text, "equals the chain") != 2 {
		t.Errorf("%s", text)
	}
	if late := w.behind.Swap(0); late == 0 {
		t.Error("the world is not last month's")
	} // the month is over
	if again := w.run("statement " + w.month); strings.Count(again, "equals the chain\n") != 2 || strings.Contains(again, "safe block") {
		t.Errorf("after the month: %s", again)
	}
	w.run("statement", w.month, "equals the chain")
	s := ran[bookkeeping.Statement](w.world, "statement "+w.month)
	if s.Verdict != bookkeeping.Equal || len(s.Wallets) != 2 || s.Wallets[0].Chain.Transfers == 0 {
		t.Errorf("%+v", s)
	}
	rows, err := csv.NewReader(strings.NewReader(w.command("statement " + w.month + " --format csv").Stdout)).ReadAll()
	if err != nil || len(rows) != 5 || rows[0][0] != "from" {
		t.Errorf("%v %v", rows, err)
	}

	// Exports: the accounts of the wallets add up to the balances.
	for _, f := range bookkeeping.Formats() {
		o := w.command("export --month " + w.month + " --chain --format " + string(f.Format))
		if o.Status != 0 || len(o.Stdout) < 200 || strings.Contains(o.Stdout, "t0ken") {
			t.Errorf("%s: %+v", f.Format, o)
		}
	}
	var all struct {
		From, To string
		Bookings []bookkeeping.Booking
		Count    int
		Change   map[string]string
	}
	w.must(json.Unmarshal([]byte(w.command("export --month "+w.month+" --chain --format json").Stdout), &all))
	if all.Change["USDC"] != "8720000" || all.Count != 9 || all.Bookings[0].Kind != bookkeeping.Deposit || all.Bookings[6].Kind != bookkeeping.Withdrawal ||
		all.Bookings[8].Corrects != all.Bookings[7].ID {
		t.Errorf("%+v", all)
	}
	w.must(json.Unmarshal([]byte(w.command("export --key research --format json").Stdout), &all))
	if all.Count != 6 || all.Change["USDC"] != "-1030000" {
		t.Errorf("of a key: %+v", all)
	}
	file := filepath.Join(t.TempDir(), "october.beancount")
	w.run("export --month "+w.month+" --format beancount --output "+file, file+": 7 bookings, 1.28 USDC less in the wallets")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	w.fails(map[string]string{
		"export --output " + file:                       "already",
		"export --month 2026-13":                        "--month",
		"export --month 2026-10 --from 2026-10-1":       "not both",
		"export --from 2026-10-01 --to 2026-10-01":      "--to is the day behind",
		"export --from today":                           "--from",
		"export --format qif":                           "is not a format",
		"export --chain":                                "how much of the chain",
		"export --month 2026-10 --chain --key research": "no key",
		"export --key nobody":                           "no key has",
		"statement october":                             "not a month",
		"statement --key nobody":                        "no key has",
		"statement --json --format csv":                 "not both",
	})
}

// claims has a seller claim a payment that the chain disproves, and another one void.
func (w *onChain) claims(k pay.Key) {
	w.t.Helper()
	for i, verdicts := range [][]pay.Verdict{{pay.VerdictSettled, pay.VerdictDisputed}, {pay.VerdictVoid}} {
		a, err := w.pays(k, pay.SettleSeller, "", 10_000, fmt.Sprintf("https://c%d.example/", i))
		w.must(err)
		id := a.Payment().ID
		held, err := w.store.Acquire(w.t.Context(), id, "test", w.now().Add(time.Minute), w.now().Add(2*time.Minute)) // the lease ran out
		w.must(err)
		for n, v := range verdicts {
			at := w.now().Add(time.Duration(n) * time.Second)
			o := pay.Outcome{PaymentID: id, Fence: held.Lease.Fence, At: at, Verdict: v, Release: n == len(verdicts)-1}
			if v != pay.VerdictVoid {
				o.EventID = uuid.Must(uuid.NewV7()).String() // behind all others
			}
			if v == pay.VerdictSettled {
				o.Transaction = fmt.Sprintf("0x%064x", 0xfa15e)
			}
			_, _, err := w.store.Record(w.t.Context(), o)
			w.must(err)
		}
	}
}

func TestStatementDiffers(t *testing.T) {
	w := newOnChain(t)
	k := w.key("research")
	wallet := w.walletOf(k)
	w.fund(wallet, 5_000_000)
	w.buys(k, 10_000, "https://api.example.com/report")

	// The key was exported, and another program pays with it.
	secret, err := w.store.WalletSecret(t.Context(), wallet.ID)
	w.must(err)
	moves(t, w, wallet, secret, 70_000)
	o := w.command("statement " + w.month)
	if o.Status != 2 || !strings.Contains(o.Stdout, "DIFFERS FROM THE CHAIN: 1 difference") || !strings.Contains(o.Stdout, "the books do not know the transfer to "+home) ||
		!strings.Contains(o.Stdout, "-0.07") {
		t.Errorf("%+v", o)
	}
	if o := w.command("export --month " + w.month + " --chain --format hledger"); !strings.Contains(o.Stdout, "Equity:Purser:Unbooked") {
		t.Errorf("%+v", o)
	}
	// Nothing is compared without the chain, or for one key.
	for line, want := range map[string]string{" --no-chain": "the chain was not asked", " --key research": "only one key's"} {
		if o := w.command("statement " + w.month + line); o.Status != 3 || !strings.Contains(o.Stdout, want) {
			t.Errorf("%s: %+v", line, o)
		}
	}
}

// moves moves money out of a wallet, past purser.
func moves(t *testing.T, w *onChain, wallet pay.Wallet, secret []byte, amount uint64) {
	t.Helper()
	to, err := x402.ParseAddress(home)
	w.must(err)
	base, _ := x402.NetworkByWire("base")
	a := x402.Authorization{From: *wallet.Address, To: to, Value: money.New(amount), ValidBefore: uint64(w.now().Add(time.Hour).Unix()), Nonce: x402.Nonce{1}}
	key, err := crypto.ToECDSA(secret)
	w.must(err)
	signature, err := x402test.Sign(a.Digest(base.Assets[0], base.ChainID), key)
	w.must(err)
	_, err = w.chain.TransferWithAuthorization(t.Context(), a, signature)
	w.must(err)
}
