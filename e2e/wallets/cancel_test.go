package wallets

import (
	"encoding/json"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// signs has a key sign a payment of the weather that its client does not send, and returns its id.
func (w *world) signs(key string) string {
	w.Helper()
	a, err := process.Ask(w.Context(), http.DefaultClient, http.MethodGet, w.weather(), "")
	if err != nil || a.Status != http.StatusPaymentRequired {
		w.Fatalf("%v, %+v", err, a)
	}
	body, err := json.Marshal(map[string]string{
		"paymentRequiredHeader": a.Header.Get(x402.HeaderRequired), "requestUrl": w.weather() + "?" + time.Now().Format(time.RFC3339Nano), "settlement": "seller",
	})
	if err != nil {
		w.Fatal(err)
	}
	var paid struct{ Payment struct{ ID string } }
	a, err = process.Ask(w.Context(), http.DefaultClient, http.MethodPost, w.URL("/v1/pay"), string(body), "X-Api-Key", key)
	if err == nil {
		err = a.Decode(http.StatusOK, &paid)
	}
	if err != nil {
		w.Fatalf("%v, %+v", err, a)
	}
	return paid.Payment.ID
}

// gas gives a wallet ether.
func (w *world) gas(address string) {
	w.Helper()
	if err := w.Money.Chain.FundETH(w.Context(), common.HexToAddress(address), big.NewInt(1e16)); err != nil {
		w.Fatal(err)
	}
}

// transactions counts those of a wallet in blocks.
func (w *world) transactions(address string) uint64 {
	w.Helper()
	rpc, err := ethclient.DialContext(w.Context(), w.Money.RPCURL())
	if err != nil {
		w.Fatal(err)
	}
	defer rpc.Close()
	n, err := rpc.NonceAt(w.Context(), common.HexToAddress(address), nil)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// dead reports whether the token takes the authorization of a payment no more, and says how the books
// have it.
func (w *world) dead(address, payment string) (used bool, story adminapi.Story) {
	w.Helper()
	out := w.Must(w.T, "payments", "show", payment, "--json")
	if err := json.Unmarshal([]byte(out), &story); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	nonce, err := x402.ParseNonce(story.Nonce)
	if err != nil {
		w.Fatal(err)
	}
	used, err = w.Money.Chain.AuthorizationState(w.Context(), common.HexToAddress(address), nonce)
	if err != nil {
		w.Fatal(err)
	}
	return used, story
}

// A key leaks. The operator stops what is new and cancels what is out, and the money stays. The wallet's key
// is purser's, or that of a signer outside.
func TestKillSwitch(t *testing.T) {
	t.Parallel()
	t.Run("local", func(t *testing.T) { cancelAll(newWorld(t)) })
	t.Run("external", func(t *testing.T) {
		cancelAll(newWorld(t, "PURSER_WALLETS=external", "PURSER_SIGNER_URL="+process.StartSigner(t)))
	})
}

func cancelAll(w *world) {
	t := w.T
	key := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create", "--label", "leaky")
	w.Fund(*key.Address, 3*price)
	ids := []string{w.signs(key.Key), w.signs(key.Key)}
	w.Must(w.T, "pause", "--reason", "leaked")
	if out, err := w.Command(t, "wallets", "cancel", *key.Address, "--yes"); err == nil || !strings.Contains(out, "and has 0 ETH: send it some ETH") {
		t.Errorf("without gas: %v, %s", err, out)
	}
	w.gas(*key.Address)
	done := sandboxed.Ran[adminapi.Cancellations](w.World, "wallets", "cancel", *key.Address, "--yes")
	if len(done.Cancellations) != 2 || w.transactions(*key.Address) != 2 {
		t.Errorf("%+v", done)
	}
	for _, id := range ids {
		process.Eventually(t, time.Minute, func() string {
			if used, story := w.dead(*key.Address, id); !used || story.State != pay.Void {
				return "payment " + id + " is " + string(story.State)
			}
			return ""
		})
	}
	if out := w.Must(w.T, "wallets", "authorizations", *key.Address); !strings.Contains(out, "nothing is reserved") {
		t.Errorf("%s", out)
	}
	if have := w.Holds(*key.Address).String(); have != "30000" {
		t.Errorf("%s are left", have)
	}
	w.Must(w.T, "resume")
	w.buys(key.Key)
	if out := w.Must(w.T, "audit"); strings.Count(out, "payment.cancel") != 2 {
		t.Errorf("%s", out)
	}
	w.End(t)
	w.Check(t)
}

// Purser is killed at each place of an approval, and the operator repeats the command. Each order costs
// one transaction.
func TestApproveAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	w := &world{sandboxed.New(t, process.Failpoints)}
	key := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create")
	w.gas(*key.Address)
	for i, place := range []string{failpoint.ApprovingKept, failpoint.TransactionKept, failpoint.TransactionSigned, failpoint.TransactionSent} {
		w.End(t)
		amount := strconv.Itoa(i + 1)
		w.KilledAt(t, place, func() { _, _ = w.Command(t, "wallets", "approve", *key.Address, "--amount", amount, "--yes") })
		w.Start(t)
		again := sandboxed.Ran[adminapi.Approved](w.World, "wallets", "approve", *key.Address, "--amount", amount, "--yes")
		if n := w.transactions(*key.Address); again.Allowance != amount+"000000" || n != uint64(i+1) {
			t.Errorf("%s: %+v after %d transactions", place, again, n)
		}
	}
	w.End(t)
	w.Check(t)
}

// Purser is killed at each place of a cancellation, and the operator repeats the command. Each payment
// costs one transaction.
func TestCancelAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	w := &world{sandboxed.New(t, process.Failpoints)}
	key := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create")
	places := []string{
		failpoint.CancelingKept + ":1", failpoint.CancelingKept + ":2", failpoint.TransactionKept, failpoint.TransactionSigned, failpoint.TransactionSent,
	}
	funds := uint64(len(places)) * price
	w.Fund(*key.Address, funds)
	w.gas(*key.Address)
	for i, place := range places {
		w.End(t)
		var id string
		w.KilledAt(t, place, func() {
			id = w.signs(key.Key)
			_, _ = w.Command(t, "wallets", "cancel", *key.Address, id, "--yes")
		})
		w.Start(t)
		again := sandboxed.Ran[adminapi.Cancellations](w.World, "wallets", "cancel", *key.Address, id, "--yes").Cancellations
		if used, _ := w.dead(*key.Address, id); len(again) != 1 || again[0].Error != "" || !again[0].Earlier || !used {
			t.Errorf("%s: %+v", place, again)
		}
		process.Eventually(t, time.Minute, func() string {
			if _, story := w.dead(*key.Address, id); story.State != pay.Void {
				return place + ": it is " + string(story.State)
			}
			return ""
		})
		if n := w.transactions(*key.Address); n != uint64(i+1) {
			t.Errorf("%s: %d transactions after %d cancellations", place, n, i+1)
		}
	}
	if have := w.Holds(*key.Address).String(); have != new(big.Int).SetUint64(funds).String() {
		t.Errorf("%s are left", have)
	}
	w.End(t)
	w.Check(t)
}
