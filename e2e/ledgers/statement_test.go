package ledgers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/internal/keystore"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

const elsewhere = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

// town is a sandbox with a purser that pays, and its chain.
type town struct {
	*process.Sandbox
	t      *testing.T
	wallet x402.Address
	chain  *chain.Client
	net    x402.Network
	client *http.Client // through the proxy
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{Sandbox: process.StartSandbox(t, nil, nil), t: t}
	w.net, _ = x402.NetworkByWire("base")
	var err error
	if w.wallet, err = x402.ParseAddress(w.Wallet); err != nil {
		t.Fatal(err)
	}
	if w.chain, err = chain.New(chain.Options{URL: w.RPC}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.chain.Close)
	proxy, err := url.Parse(w.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	w.client = process.Client(proxy, nil)
	return w
}

// command runs a command of purser, and returns its status with what it prints.
func (w *town) command(arguments ...string) (int, string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), process.Program(w.t, process.Plain), arguments...)
	cmd.Env = process.Environment("PURSER_ADMIN=" + w.Admin)
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// statement returns this month's statement of the sandbox's wallet, and the status of the command.
func (w *town) statement(month string) (int, bookkeeping.WalletStatement) {
	w.t.Helper()
	status, text := w.command("statement", month, "--json")
	var s bookkeeping.Statement
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		w.t.Fatalf("%v: %s", err, text)
	}
	for _, one := range s.Wallets {
		if strings.EqualFold(one.Address, w.Wallet) {
			return status, one
		}
	}
	w.t.Fatalf("no wallet %s in %s", w.Wallet, text)
	return 0, bookkeeping.WalletStatement{}
}

// balance asks the chain.
func (w *town) balance() string {
	w.t.Helper()
	a, err := w.chain.Balance(w.t.Context(), w.net, w.net.Assets[0], w.wallet)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.String()
}

// TestStatementEqualsTheChain pays through the proxy and REST, deposits and withdraws. Then money leaves the
// wallet past purser.
func TestStatementEqualsTheChain(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	for n := range 3 {
		res, err := w.client.Get(fmt.Sprintf("%s/weather?n=%d", w.Seller, n))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
		_ = res.Body.Close()
	}
	w.rest()
	res, err := w.client.PostForm(w.Seller+"/faucet", url.Values{"address": {w.Wallet}})
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	_ = res.Body.Close()
	if status, text := w.command("wallets", "withdraw", w.Wallet, "--to", elsewhere, "--amount", "0.5", "--yes"); status != 0 {
		t.Fatal(text)
	}
	month := time.Now().UTC().Format("2006-01")
	var s bookkeeping.WalletStatement
	process.Eventually(t, time.Minute, func() string { // until all blocks are safe
		var status int
		if status, s = w.statement(month); status != 0 || s.Verdict != bookkeeping.Equal || s.Chain.Balance.String() != w.balance() {
			return fmt.Sprintf("%d: %s, %+v; the chain has %s", status, s.Text(), s, w.balance())
		}
		return ""
	})
	if s.Closing.String() != w.balance() || s.Payments.Count != 4 || s.Withdrawals.Amount.String() != "500000" || s.Deposits.Count < 2 {
		t.Errorf("%+v", s)
	}
	if _, text := w.command("statement", month); !strings.Contains(text, "equals the chain") {
		t.Error(text)
	}

	// An export with the chain's deposits adds up to the balance.
	status, text := w.command("export", "--month", month, "--wallet", w.Wallet, "--chain", "--format", "json")
	var export struct{ Change map[string]string }
	if err := json.Unmarshal([]byte(text), &export); err != nil || status != 0 || export.Change["USDC"] != w.balance() {
		t.Errorf("%d, %v: %v, and the chain has %s", status, err, export.Change, w.balance())
	}

	w.pastPurser(money.New(70_000))
	process.Eventually(t, time.Minute, func() string {
		status, s := w.statement(month)
		if status != 2 || len(s.Differences) != 1 || s.Differences[0].Reason != bookkeeping.NotBooked || s.Differences[0].Amount.String() != "-70000" ||
			s.Differences[0].Other != elsewhere || s.Chain.Balance.String() != w.balance() {
			return fmt.Sprintf("%d: %+v", status, s)
		}
		return ""
	})
}

// rest pays for a page by POST /v1/pay.
func (w *town) rest() {
	w.t.Helper()
	seller, err := url.Parse(w.Seller)
	if err != nil {
		w.t.Fatal(err)
	}
	where := "http://127.0.0.1:" + seller.Port() + "/prepaid"
	first, err := process.Ask(w.t.Context(), process.Client(nil, nil), "GET", where, "")
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{"paymentRequiredHeader": first.Header.Get("PAYMENT-REQUIRED"), "requestUrl": where})
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := process.Ask(w.t.Context(), process.Client(nil, nil), "POST", w.API+"/v1/pay", string(body), "X-Api-Key", w.Key, "Content-Type", "application/json")
	if err != nil || got.Status != http.StatusOK {
		w.t.Fatalf("%+v, %v", got, err)
	}
}

// pastPurser exports the wallet's key and moves money with it.
func (w *town) pastPurser(amount money.Amount) {
	w.t.Helper()
	dir := w.t.TempDir()
	phrase, file := filepath.Join(dir, "phrase"), filepath.Join(dir, "wallet.json")
	if err := os.WriteFile(phrase, []byte("a long passphrase of a test\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if status, text := w.command("wallets", "export", w.Wallet, "--out", file, "--passphrase-file", phrase); status != 0 {
		w.t.Fatal(text)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	secret, err := keystore.Decrypt(text, "a long passphrase of a test")
	if err != nil {
		w.t.Fatal(err)
	}
	key, err := crypto.ToECDSA(secret)
	if err != nil {
		w.t.Fatal(err)
	}
	to, err := x402.ParseAddress(elsewhere)
	if err != nil {
		w.t.Fatal(err)
	}
	usdc := w.net.Assets[0]
	challenge, err := x402.TransferChallenge(w.net, usdc, to, amount, time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	a := x402.Authorization{From: w.wallet, To: to, Value: amount, ValidBefore: uint64(time.Now().Add(time.Minute).Unix()), Nonce: x402.Nonce{1}}
	signature, err := x402test.Sign(a.Digest(usdc, w.net.ChainID), key)
	if err != nil {
		w.t.Fatal(err)
	}
	payload, err := challenge.Offer(0).Payload(a, signature)
	if err != nil {
		w.t.Fatal(err)
	}
	asks, err := facilitator.New(facilitator.Options{URL: w.Facilitator})
	if err != nil {
		w.t.Fatal(err)
	}
	settled, err := asks.Settle(w.t.Context(), pay.Exchange{Payload: payload, Requirement: challenge.Accepts[0].Raw})
	if err != nil || !settled.Success {
		w.t.Fatalf("%+v, %v", settled, err)
	}
}
