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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
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
	*sandboxed.World
	admin *http.Client
}

func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	return ask(sandboxed.New(t, process.Plain, append([]string{"PURSER_APPROVAL_WAIT=60s"}, settings...)...))
}

// ask lets people ask a purser at its admin endpoint.
func ask(w *sandboxed.World) *world { return &world{w, process.AdminClient(w.Socket())} }

// agent is a program with a key of its own, whose payments above a price need an approval.
type agent struct {
	*world
	key, id string
	address string // of the wallet, which agents of a purser share
	had     money.Amount
	client  *http.Client
}

func (w *world) newAgent(above string) *agent {
	w.Helper()
	made := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create", "--label", strings.ToLower(w.Name()), "--require-approval-above", above)
	w.Fund(*made.Address, funds)
	return &agent{world: w, key: made.Key, id: made.ID, address: *made.Address, had: w.Holds(*made.Address), client: w.Client(made.Key)}
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
		have := a.Holds(a.address)
		if left, _ := a.had.Sub(money.New(want)); have != left {
			return fmt.Sprintf("%s are left of %s, want %d less", have, a.had, want)
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
	seller, err := url.Parse(w.Money.SellerDirectURL())
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
