package mpp

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/x402"
)

// requireEqual fails unless the agent's books come to equal both chains, fees for gas too: each transaction that has moved
// money is a settled payment, with one spend event of the same amount. Nothing stays open. It returns the payments.
func (a *agent) requireEqual(t testing.TB) (list []booked) {
	t.Helper()
	process.Eventually(t, 3*time.Minute, func() (problem string) {
		list, problem = a.compare(t)
		return problem
	})
	for _, wallet := range []x402.Address{a.wallet, a.tempo} {
		if !wallet.IsZero() {
			a.requireStatement(t, wallet)
		}
	}
	return list
}

// compare says how the agent's books differ from the chains, if they do.
func (a *agent) compare(t testing.TB) (list []booked, problem string) {
	t.Helper()
	list, text := a.books(t)
	var spend struct {
		Events []struct {
			Amount    string
			PaymentID string `json:"payment_id"`
		}
		Pending struct{ Count int }
	}
	told := a.read(t, "/v1/spend?limit=500", &spend)
	left := a.left(t)
	events := map[string][]string{}
	for _, e := range spend.Events {
		events[e.PaymentID] = append(events[e.PaymentID], e.Amount)
	}
	settled := 0
	for _, p := range list {
		booked := fmt.Sprint(events[p.ID])
		switch {
		case p.settled() && left[strings.ToLower(p.Transaction)] == p.moved() && booked == "["+p.moved()+"]":
			settled++
		case p.State != "void" || booked != "[]":
			return list, fmt.Sprintf("%+v with the events %s, and the chain has %s", p, booked, left[strings.ToLower(p.Transaction)])
		}
	}
	if settled != len(left) || spend.Pending.Count != 0 {
		return list, fmt.Sprintf("%d are settled, and the chains have %d: %s\n%s", settled, len(left), text, told)
	}
	return list, ""
}

// moved is the amount that has left the wallet for a payment, in the smallest unit.
func (p booked) moved() string {
	if p.Charged != "" {
		return p.Charged
	}
	return p.Amount
}

// left adds up what the agent's wallets have paid on both chains, by transaction, in the smallest unit.
func (a *agent) left(t testing.TB) map[string]string {
	t.Helper()
	sums := map[string]*big.Int{}
	if !a.wallet.IsZero() {
		moved, err := env.Money.Chain.Transfers(t.Context(), new(common.Address(a.wallet.EVM())), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range moved {
			if sums[m.Tx] != nil {
				t.Fatalf("%s moved money twice", m.Tx)
			}
			sums[m.Tx] = m.Value
		}
	}
	if !a.tempo.IsZero() {
		onTempo, err := env.tempoChain(t).Left(t.Context(), common.Address(a.tempo.EVM()))
		if err != nil {
			t.Fatal(err)
		}
		for tx, sum := range onTempo {
			sums[tx.Hex()] = sum
		}
	}
	left := map[string]string{}
	for tx, sum := range sums {
		left[strings.ToLower(tx)] = sum.String()
	}
	return left
}

// requireStatement fails unless `purser statement` comes to say that a wallet equals the chain, with all that the chain has.
func (a *agent) requireStatement(t testing.TB, wallet x402.Address) {
	t.Helper()
	process.Eventually(t, time.Minute, func() string { // until all blocks are safe
		said, err := a.Command(t, "statement", time.Now().UTC().Format("2006-01"), "--json", "--wallet", wallet.String(), "--admin", a.Admin())
		var s bookkeeping.Statement
		if failed := json.Unmarshal([]byte(said), &s); failed != nil || err != nil || len(s.Wallets) != 1 {
			return fmt.Sprintf("%v, %v: %s", err, failed, said)
		}
		have, err := env.balance(t, wallet, s.Wallets[0].Network)
		if w := s.Wallets[0]; err != nil || w.Verdict != bookkeeping.Equal || w.Closing.String() != have || w.Chain.Balance.String() != have {
			return fmt.Sprintf("the chain has %s, %v: %s", have, err, said)
		}
		return ""
	})
}

// balance asks a chain what a wallet has, in the smallest unit.
func (w *world) balance(t testing.TB, wallet x402.Address, network string) (string, error) {
	t.Helper()
	of, ask := common.Address(wallet.EVM()), env.Money.Chain.Balance
	if network == "tempo" {
		ask = w.tempoChain(t).Balance
	}
	have, err := ask(t.Context(), of)
	if err != nil {
		return "", err
	}
	return have.String(), nil
}
