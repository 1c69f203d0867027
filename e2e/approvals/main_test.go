package approvals

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m, 4)) }

// Goods of the seller, and their prices in the smallest unit of USDC.
const (
	cheap, cheapPrice = "/weather", 10_000
	dear, dearPrice   = "/stream", 20_000
	funds             = 3_000_000
)

// world is a chain with a seller, and a purser that pays there.
type world struct {
	*testing.T
	*process.Purser
	money *sandbox.World
	admin *http.Client
}

func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	money, err := sandbox.Start(context.Background(), sandbox.Options{})
	process.CloseAtEnd(t, money, err)
	return startWorld(t, money, settings...)
}

func startWorld(t *testing.T, money *sandbox.World, settings ...string) *world {
	t.Helper()
	w := &world{T: t, money: money}
	w.Purser = process.NewPurser(t, process.Program(t, process.Plain), filepath.Join(t.TempDir(), "data"), append(settings, "PURSER_RPC_URL="+money.RPCURL())...)
	w.Start(t)
	w.admin = process.AdminClient(w.Socket())
	return w
}

// agent is a program with a key of its own, whose payments above a price need an approval.
type agent struct {
	*world
	key, id string
	wallet  x402.Address // agents of a purser share it
	had     money.Amount
	client  *http.Client
}

func (w *world) newAgent(above string) *agent {
	w.Helper()
	out, err := w.Command(w.T, "keys", "create", "--label", strings.ToLower(w.Name()), "--require-approval-above", above, "--json", "--admin", w.Admin())
	if err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	var made adminapi.CreatedKey
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	a := &agent{world: w, key: made.Key, id: made.ID}
	if a.wallet, err = x402.ParseAddress(*made.Address); err == nil {
		err = w.money.Fund(w.Context(), a.wallet, money.New(funds))
	}
	if err == nil {
		a.had, err = w.money.Balance(w.Context(), a.wallet)
	}
	if err != nil {
		w.Fatal(err)
	}
	a.client = process.Client(&url.URL{Scheme: "http", Host: w.Host(), User: url.UserPassword(a.key, "agent")}, nil)
	return a
}

// get asks for something of the seller.
func (a *agent) get(rawURL string) process.Answer {
	a.Helper()
	got, err := process.Ask(a.Context(), a.client, http.MethodGet, rawURL, "")
	if err != nil {
		a.Fatal(err)
	}
	return got
}

// start asks for something that will be held.
func (a *agent) start(ctx context.Context, rawURL string) <-chan process.Answer {
	ended := make(chan process.Answer, 1)
	go func() {
		got, err := process.Ask(ctx, a.client, http.MethodGet, rawURL, "")
		if err != nil {
			got.Body = err.Error()
		}
		ended <- got
	}()
	return ended
}

func (a *agent) ended(call <-chan process.Answer) process.Answer {
	a.Helper()
	select {
	case got := <-call:
		return got
	case <-time.After(30 * time.Second):
		a.Fatal("the call goes on")
		return process.Answer{}
	}
}

// paid demands that an answer was paid for.
func (a *agent) paid(got process.Answer) {
	a.Helper()
	if got.Status != http.StatusOK || got.Header.Get("Purser-Payment") == "" {
		a.Fatalf("not paid: %d %v %s", got.Status, got.Header, got.Body)
	}
}

// declined demands that an answer says why it was not paid for, and returns the approval that it names.
func (a *agent) declined(got process.Answer, word string) (approval string) {
	a.Helper()
	var told struct {
		Reason   string
		Approval struct{ ID, Expires string }
	}
	if err := got.Decode(http.StatusPaymentRequired, &told); err != nil {
		a.Fatal(err)
	}
	if approval = got.Header.Get("Purser-Approval"); got.Header.Get("Purser-Declined") != word || told.Reason != word || approval != told.Approval.ID {
		a.Fatalf("not declined for %s: %v %s", word, got.Header, got.Body)
	}
	return approval
}

// spent demands what has left the wallet since the agent was made, on the chain.
func (a *agent) spent(want uint64) {
	a.Helper()
	process.Eventually(a.T, 20*time.Second, func() string {
		have, err := a.money.Balance(context.Background(), a.wallet)
		if left, _ := a.had.Sub(money.New(want)); err != nil || have != left {
			return fmt.Sprintf("%s are left of %s, want %d less, %v", have, a.had, want, err)
		}
		return ""
	})
}

// ofKey returns the part of a query for the agent's approvals; for those of all keys it is empty.
func (a *agent) ofKey() string {
	if a.id == "" {
		return ""
	}
	return "&key=" + a.id
}

// pending waits until people are asked about n payments of the agent.
func (a *agent) pending(n int) (asked []adminapi.Approval) {
	a.Helper()
	process.Eventually(a.T, 30*time.Second, func() string {
		var page struct{ Approvals []adminapi.Approval }
		got, err := process.Ask(context.Background(), a.admin, http.MethodGet, "http://127.0.0.1/purser/approvals?state=pending&limit=200"+a.ofKey(), "")
		if err == nil {
			err = got.Decode(http.StatusOK, &page)
		}
		if asked = page.Approvals; err != nil || len(asked) != n {
			return fmt.Sprintf("%d approvals wait, want %d, %v", len(asked), n, err)
		}
		return ""
	})
	return asked
}

// answers has a person answer at the admin endpoint.
func (a *agent) answers(id string, answer pay.ApprovalAnswer) error {
	body, err := json.Marshal(adminapi.NewAnswer{Answer: answer, Reason: map[pay.ApprovalAnswer]string{pay.Denied: "not today"}[answer]})
	if err != nil {
		return err
	}
	got, err := process.Ask(context.Background(), a.admin, http.MethodPost, "http://127.0.0.1/purser/approvals/"+id, string(body))
	if err == nil && got.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", got.Status, got.Body)
	}
	return err
}

func (a *agent) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// shop stands in front of the seller, and can sell another good at the same URL.
type shop struct {
	*httptest.Server
	good atomic.Pointer[string]
}

func (w *world) newShop(good string) *shop {
	w.Helper()
	seller, err := url.Parse(w.money.SellerDirectURL())
	if err != nil {
		w.Fatal(err)
	}
	s := new(shop)
	s.good.Store(&good)
	s.Server = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(seller)
		r.Out.URL.Path = *s.good.Load()
	}})
	w.T.Cleanup(s.Close)
	return s
}
