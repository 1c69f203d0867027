// Package shop has honest customers buy from an honest seller at every door of pursers that are killed, and
// compares the books with the chain.
package shop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
)

const (
	// Patience bounds every honest operation on a busy machine.
	Patience = time.Minute
	// Key is the deployment's key of all pursers.
	Key = "pk_shopshopshopshopshopshopshopshop"
	// Sidecar is the door that package hostile has another function for.
	Sidecar hostile.Door = "sidecar"

	masterKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// Doors lists all doors.
func Doors() []hostile.Door { return append(hostile.Doors(), Sidecar) }

// MasterKey returns the master key of all pursers.
func MasterKey() vault.Source {
	k, err := vault.ParseMasterKey(masterKey)
	if err != nil {
		panic(err) // it is a constant
	}
	return vault.Given(k)
}

// MasterKeySetting is the variable that gives a purser this key.
func MasterKeySetting() string { return "PURSER_MASTER_KEY=" + masterKey }

// Bounded ends what a test waits for.
func Bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Shop is a seller with a facilitator and a chain, and what customers have been told.
type Shop struct {
	*hostile.World
	Chain *ledger.Ledger
	Clock *process.Clock

	mu   sync.Mutex
	told []uint64 // orders whose customer got what it paid for
}

// New opens a Shop whose payments are valid for a while.
func New(t testing.TB, clock *process.Clock, valid time.Duration) *Shop {
	t.Helper()
	chain := process.StartLedger(t, clock)
	return &Shop{World: process.StartHostile(t, chain, clock, valid), Chain: chain, Clock: clock}
}

// Settings returns the variables of a purser that has no limits but the budgets.
func (s *Shop) Settings(more ...string) []string {
	return append([]string{
		s.Clock.Setting(), MasterKeySetting(), "PURSER_KEY=" + Key, "PURSER_UPSTREAM=" + s.SellerURL,
		"PURSER_FACILITATOR_URL=" + s.FacilitatorURL, "PURSER_RPC_URL=" + s.RPCURL,
		"PURSER_MAX_PAYMENT=off", "PURSER_PER_MINUTE=off", "PURSER_FAILURES_PER_MINUTE=off", "PURSER_FAILURES_PER_DAY=off",
	}, more...)
}

// Enroll makes a customer for each door, with money. The API's two doors share one.
func (s *Shop) Enroll(t testing.TB, p *process.Purser, funds money.Amount) map[hostile.Door]*hostile.Customer {
	t.Helper()
	ctx := Bounded(t)
	api, err1 := hostile.Enroll(ctx, p.URL(""))
	agent, err2 := hostile.Enroll(ctx, p.URL(""))
	owner, err3 := hostile.Deployment(ctx, p.URL(""), Key)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	customers := map[hostile.Door]*hostile.Customer{
		hostile.PayerDoor: api, hostile.SellerDoor: api, hostile.ProxyDoor: agent, Sidecar: owner,
	}
	for _, c := range Everybody(customers) {
		if err := s.Fund(ctx, c.Wallet, funds); err != nil {
			t.Fatal(err)
		}
	}
	return customers
}

// Everybody lists each customer once.
func Everybody(customers map[hostile.Door]*hostile.Customer) []*hostile.Customer {
	seen := map[*hostile.Customer]bool{}
	for _, c := range customers {
		seen[c] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// Buy has a customer ask a purser for an order once.
func (s *Shop) Buy(ctx context.Context, c *hostile.Customer, p *process.Purser, door hostile.Door, o hostile.Order) hostile.Result {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	var r hostile.Result
	if door == Sidecar {
		r = c.BuyBeside(ctx, p.SidecarURL(), o)
	} else {
		r = c.Buy(ctx, s.SellerURL, door, o)
	}
	if r.Done {
		s.mu.Lock()
		s.told = append(s.told, o.ID)
		s.mu.Unlock()
	}
	return r
}

// Insist asks until the customer has what it wants, or cannot get it any more, and returns the last result. A
// payment that is open and expired is waited for: recovery closes it.
func Insist(ctx context.Context, goesOn func() bool, ask func() hostile.Result) (r hostile.Result) {
	for refusals := 0; refusals < 2 && ctx.Err() == nil && goesOn(); {
		r = ask()
		wait := 50 * time.Millisecond
		switch {
		case r.Done, r.Told(), Spent(r):
			return r
		case r.Err == nil:
			wait = 300 * time.Millisecond
		}
		// Sellers here do not take the same payload twice.
		if refusals++; !PaidAndRefused(r) {
			refusals = 0
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return r
}

// PaidAndRefused reports whether the seller refused a payload because it had been used before. At
// the proxy the answer says so. A customer that pays by itself sees a bare 402.
func PaidAndRefused(r hostile.Result) bool {
	return r.Reason == "paid-not-delivered" || r.Reason == "paid-before" || r.Err == nil && r.Status == http.StatusPaymentRequired && r.Reason == ""
}

// Spent reports whether the budget had no room for the order.
func Spent(r hostile.Result) bool {
	return r.Err == nil && !r.Done && strings.Contains(r.Reason, "budget")
}

// Open names a payment that is open, if there is one.
func Open(books hostile.Books) string {
	for _, p := range books.Payments {
		if p.State == "open" {
			return fmt.Sprintf("%s: %+v", hostile.RuleClosed, p)
		}
	}
	return ""
}

// RuleTold says that an answer with the goods is true.
const RuleTold hostile.Rule = "what the customer got was paid for once"

// Audit compares books with the chain, and with the answers for orders of the customer. Everybody is honest,
// and there is an RPC. Recovery's last look comes after the tests' patience, so that it is not asked for.
func (s *Shop) Audit(books hostile.Books, chain hostile.Ledger, mine func(order uint64) bool) (found []hostile.Finding) {
	for _, f := range hostile.Audit(books, chain, nil) {
		if f.Rule != hostile.RuleChecked {
			found = append(found, f)
		}
	}
	for _, p := range books.Payments {
		if p.Has("disputed") || p.Has("unresolved") {
			found = append(found, hostile.Finding{Rule: hostile.RuleEnd, Detail: fmt.Sprintf("%+v", p)})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	per := chain.PerOrder()
	for _, order := range s.told {
		if mine(order) && per[order] != 1 {
			found = append(found, hostile.Finding{Rule: RuleTold, Detail: fmt.Sprintf("order %d, of %d, was paid for %d times", order, order*hostile.PriceStep, per[order])})
		}
	}
	return found
}
