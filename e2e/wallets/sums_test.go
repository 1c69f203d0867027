package wallets

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox"
)

// away is an address outside of purser.
const away = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

// visitor reads the dashboard as the operator.
func (w *world) visitor() func(path string) string {
	w.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	link, err := url.Parse(sandboxed.Ran[struct{ URL string }](w.World, "dashboard").URL)
	if err != nil {
		w.Fatal(err)
	}
	by := &http.Client{Jar: jar, Timeout: time.Minute}
	if res, err := by.PostForm(link.Scheme+"://"+link.Host+link.Path, url.Values{"link": {link.Fragment}}); err != nil || res.Body.Close() != nil || res.StatusCode != http.StatusOK {
		w.Fatalf("signing in: %v, %+v", err, res)
	}
	return func(path string) string {
		w.Helper()
		a, err := process.Ask(w.Context(), by, http.MethodGet, link.Scheme+"://"+link.Host+path, "")
		if err != nil || a.Status != http.StatusOK {
			w.Fatalf("%s: %v, %+v", path, err, a)
		}
		_, main, _ := strings.Cut(strings.Join(strings.Fields(a.Body), " "), "<main")
		return main
	}
}

// An agent pays twice. Its operator withdraws, lets Permit2 move tokens, and cancels an authorization. Each place
// that says what was spent says what the two purchases cost, and the statement equals the chain.
func TestMovementsAreNoSpend(t *testing.T) {
	t.Parallel()
	money, err := sandbox.Start(t.Context(), sandbox.Options{})
	process.CloseAtEnd(t, money, err)
	w := &world{sandboxed.On(t, money, process.Plain, "PURSER_FACILITATOR_URL="+money.FacilitatorURL())}
	key := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create", "--label", "mover", "--daily-budget", "1")
	w.Fund(*key.Address, 3_000_000)
	w.gas(*key.Address)
	w.buys(key.Key)
	w.Must(t, "wallets", "withdraw", *key.Address, "--to", away, "--amount", "2.5", "--yes") // more than the budget of the day
	w.Must(t, "wallets", "approve", *key.Address, "--amount", "0.5", "--yes")
	canceled := w.signs(key.Key)
	w.Must(t, "wallets", "cancel", *key.Address, "--yes")
	process.Eventually(t, time.Minute, func() string {
		if _, story := w.dead(*key.Address, canceled); story.State != pay.Void {
			return "the canceled payment is " + string(story.State)
		}
		return ""
	})
	w.buys(key.Key)

	says(t, strings.Join(strings.Fields(w.Must(t, "limits", "mover")), " "), "spent today 0.02 left today 0.98")
	type sum struct {
		Count  int
		Amount string
	}
	moved := sum{1, "2500000"}
	spent := sandboxed.Ran[struct {
		Spend     []adminapi.SpendEvent
		Count     int
		Total     string
		Withdrawn sum
	}](w.World, "spend", "--key", "mover")
	if len(spent.Spend) != 3 || spent.Count != 2 || spent.Total != "20000" || spent.Withdrawn != moved || spent.Spend[1].Kind != bookkeeping.Withdrawal {
		t.Errorf("spend: %+v", spent)
	}
	for _, by := range []string{"host", "task", "key", "day"} {
		got := sandboxed.Ran[struct {
			Groups    []struct{ Amount string }
			Count     int
			Total     string
			Withdrawn sum
		}](w.World, "spend", "--by", by)
		if len(got.Groups) != 1 || got.Groups[0].Amount != "20000" || got.Count != 2 || got.Total != "20000" || got.Withdrawn != moved {
			t.Errorf("spend by %s: %+v", by, got)
		}
	}
	says(t, w.Must(t, "spend"), "2 events, 0.02 USDC", "not in this sum: 1 withdrawal, 2.5 USDC")
	says(t, w.Must(t, "status"), "mover spent 0.02 USDC, 0.98 left")
	w.ownSpend(key.Key)
	w.pages(key.ID)

	if have := w.Holds(*key.Address).String(); have != "480000" {
		t.Errorf("the wallet has %s", have)
	}
	var s bookkeeping.Statement
	process.Eventually(t, time.Minute, func() string { // until all blocks are safe
		out, err := w.Command(t, "statement", time.Now().UTC().Format("2006-01"), "--json")
		if wrong := json.Unmarshal([]byte(out), &s); wrong != nil || err != nil || s.Verdict != bookkeeping.Equal || s.Wallets[0].Chain.Balance.String() != "480000" {
			return out
		}
		return ""
	})
	one := s.Wallets[0]
	if one.Payments.Count != 2 || one.Payments.Amount.String() != "20000" || one.Withdrawals.Count != 1 || one.Withdrawals.Amount.String() != moved.Amount {
		t.Errorf("statement: %+v", one)
	}
	w.End(t)
	w.Check(t)
}

// ownSpend demands what REST tells the key: its purchases, and none of its operator's movements.
func (w *world) ownSpend(key string) {
	w.Helper()
	var list struct {
		Events  []struct{ Amount string }
		Pending struct {
			Count  int
			Amount string
		}
	}
	a, err := process.Ask(w.Context(), http.DefaultClient, http.MethodGet, w.URL("/v1/spend"), "", "X-Api-Key", key)
	if err == nil {
		err = a.Decode(http.StatusOK, &list)
	}
	if err != nil || len(list.Events) != 2 || list.Events[0].Amount != "10000" || list.Events[1].Amount != "10000" || list.Pending.Count != 0 {
		w.Errorf("REST: %v, %+v", err, list)
	}
}

// pages demands one sum on all pages of the dashboard.
func (w *world) pages(keyID string) {
	w.Helper()
	read := w.visitor()
	const (
		sum       = `Spent: <strong>2 payments</strong> · <strong><span class="amount">0.02 `
		withdrawn = `Withdrawn: <strong>1 withdrawal</strong> · <strong><span class="amount">2.5 `
	)
	for _, filter := range []string{"?", "?range=30d", "?key=" + keyID} {
		for _, page := range []string{"spend", "payments"} {
			says(w.T, read("/dashboard/"+page+filter), sum, withdrawn, "Withdrawal to "+away)
		}
	}
	says(w.T, read("/dashboard/payments"), ">Canceled<")
	overview := read("/dashboard/")
	says(w.T, overview, `<span class="amount">0.02 <span class="unit">USDC</span></span></dd><dd>2 payments</dd>`)
	if strings.Contains(overview, "host=withdrawal") || strings.Contains(overview, "2.52") {
		w.Errorf("the overview has the withdrawal in a sum: %s", overview)
	}
	page := read("/dashboard/keys/" + keyID)
	says(w.T, page, "0.02 of 1.00", "0.98 USDC left")
	if strings.Contains(page, "2.5") || strings.Contains(page, "Spent in") {
		w.Errorf("the page of the key has another figure: %s", page)
	}
}

func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %s", part, text)
		}
	}
}
