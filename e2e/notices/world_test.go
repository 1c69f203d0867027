package notices

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
)

const (
	// patience bounds every step on a busy machine.
	patience  = 30 * time.Second
	publicURL = "https://purser.example.com"
	rich      = 1_000_000_000 // a thousand dollars
)

// world is a purser that tells a chat and a mail server, with a seller and a chain.
type world struct {
	*testing.T
	*hostile.World
	chain  *ledger.Ledger
	clock  *process.Clock
	purser *process.Purser
}

// newWorld prepares a purser, and starts none.
func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	w := &world{T: t, clock: process.NewClock(t)}
	w.chain = process.StartLedger(t, w.clock)
	w.World = process.StartHostile(t, w.chain, w.clock, time.Minute)
	w.purser = process.NewPurser(t, process.Program(t, process.Failpoints), filepath.Join(t.TempDir(), "data"), append([]string{
		w.clock.Setting(), "PURSER_MASTER_KEY=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		"PURSER_UPSTREAM=" + w.SellerURL, "PURSER_FACILITATOR_URL=" + w.FacilitatorURL, "PURSER_RPC_URL=" + w.RPCURL,
		"PURSER_MAX_PAYMENT=off", "PURSER_DAILY_BUDGET=off", "PURSER_MONTHLY_BUDGET=off", "PURSER_ALLOW_ADDRESSES=127.0.0.0/8",
		"PURSER_WEBHOOK_SECRET=" + secret, "PURSER_WEBHOOK_KINDS=all", "PURSER_PUBLIC_URL=" + publicURL,
	}, settings...)...)
	return w
}

// start starts purser and returns when its commands are served. more are further variables.
func (w *world) start(more ...string) {
	w.Helper()
	w.purser.Start(w.T, more...)
	w.served()
}

// served waits until purser's commands are served.
func (w *world) served() {
	w.Helper()
	process.Eventually(w.T, patience, func() string {
		got, err := process.Ask(w.Context(), process.AdminClient(w.purser.Socket()), "GET", "http://127.0.0.1/purser/webhooks", "")
		if err == nil && got.Status == 200 {
			return ""
		}
		return fmt.Sprint(got, err)
	})
}

// admin asks purser's admin endpoint.
func (w *world) admin(method, path string, body, into any) {
	w.Helper()
	text := ""
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			w.Fatal(err)
		}
		text = string(encoded)
	}
	client := process.AdminClient(w.purser.Socket())
	got, err := process.Ask(w.Context(), client, method, "http://127.0.0.1"+path, text)
	if err == nil {
		err = got.Decode(max(got.Status, 200), into)
	}
	if err != nil || got.Status >= 300 {
		w.Fatalf("%s %s: %d %s, %v", method, path, got.Status, got.Body, err)
	}
}

// customer makes a key with a policy and a wallet of its own.
func (w *world) customer(label string, funds uint64, policy policy.Policy) *hostile.Customer {
	w.Helper()
	var made adminapi.CreatedKey
	w.admin("POST", "/purser/keys", adminapi.NewKey{Label: label, Policy: &policy, Wallet: "new"}, &made)
	c, err := hostile.Deployment(w.Context(), w.purser.URL(""), made.Key)
	if err == nil {
		err = w.Fund(w.Context(), c.Wallet, money.New(funds))
	}
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// buy asks for an order through the proxy.
func (w *world) buy(c *hostile.Customer, order uint64, key string) hostile.Result {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	return c.Buy(ctx, w.SellerURL, hostile.ProxyDoor, hostile.Order{ID: order, Key: key})
}

// bought demands that an order is delivered.
func (w *world) bought(c *hostile.Customer, order uint64, key string) {
	w.Helper()
	if r := w.buy(c, order, key); !r.Done {
		w.Fatalf("order %d: %s", order, r)
	}
}

// settled waits until the books have settled a payment of a key.
func (w *world) settled(label string) {
	w.Helper()
	var now *process.Clock
	now.Until(w.T, patience, func() string {
		var page struct{ Payments []adminapi.Payment }
		w.admin("GET", "/purser/payments?state=settled&key="+label, nil, &page)
		if len(page.Payments) > 0 {
			return ""
		}
		return "no settled payment of " + label
	})
}

// events lists all notices, oldest first.
func (w *world) events() []adminapi.Notice {
	w.Helper()
	var page adminapi.Notices
	w.admin("GET", "/purser/notices?limit=500", nil, &page)
	slices.Reverse(page.Notices)
	return page.Notices
}

// await waits for a notice of a kind, and lets time pass if it is long in coming.
func (w *world) await(kind pay.NoticeKind) {
	w.Helper()
	w.awaitWith(nil, kind)
}

// awaitWith is await with a clock that is set forward meanwhile.
func (w *world) awaitWith(clock *process.Clock, kind pay.NoticeKind) {
	w.Helper()
	clock.Until(w.T, patience, func() string {
		all := w.events()
		if slices.ContainsFunc(all, func(n adminapi.Notice) bool { return n.Kind == kind }) {
			return ""
		}
		return fmt.Sprintf("no notice %s among %d", kind, len(all))
	})
}
