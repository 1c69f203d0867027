package dashboard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

const (
	feedLength  = 12
	sharesShown = 8
	// standardDays is the length of the chart by default.
	standardDays = 30
)

var chartDays = []int{7, standardDays, 90}

// news holds the parts of the overview that are kept fresh.
type news struct {
	Today, Month spent
	MonthName    string
	Quota        quota
	Pending      pending
	Attention    []attention
	Feed         feed
	Swap         bool   // sent to replace the parts of a shown page
	Announce     string // for screen readers
	scope        string
}

type spent struct {
	Net      amount
	Payments string
}

func spentOf(s pay.Sum) spent { return spent{netOf(s), payments(s.Count)} }

type quota struct {
	meter
	Left, Plan, Upgrade string
	Resets              moment
}

type pending struct {
	Count  string
	Any    bool
	Amount amount
}

type feed struct {
	Payments []paymentRow
	Poll     string `json:"-"` // URL of the next poll; it says what is shown already
}

type paymentRow struct {
	ID, Path, Site, Task, Reason string
	Payee, PayeePath             string
	KeyName, KeyPath             string
	Amount                       amount
	State                        state
	When                         moment
	Fresh                        bool `json:"-"`
}

func rowOf(p *pay.Payment, when moment) paymentRow {
	return paymentRow{
		ID: p.ID, Path: "/dashboard/payments/" + p.ID, Site: siteOf(p.RequestURL).Text, Task: cut(p.Task, maxName), Reason: cut(p.Reason, maxTitle),
		Amount: amountOf(p.Moved(), false, cut(p.Currency, 12)), State: stateOf(p), When: when,
	}
}

type overviewPage struct {
	*news
	Empty        bool // no payment was ever made
	Paused       *pay.Pause
	Start        *start
	Chart        chart
	Ranges       []tab
	Hosts, Tasks shares
}

// tab is a link in a row of choices.
type tab struct {
	Name, Path string
	Current    bool
}

// overview serves GET /dashboard/. ?days= is the length of the chart.
func (d *dashboard) overview(r *http.Request, v visit) (answer, error) {
	n, err := d.news(r.Context(), v)
	if err != nil {
		return answer{}, err
	}
	p := overviewPage{news: n, Empty: len(n.Feed.Payments) == 0}
	if p.Paused, err = d.Books.Paused(r.Context()); err != nil {
		return answer{}, err
	}
	n.Feed.Poll = n.poll()
	if p.Empty {
		if p.Start, err = d.start(r, v); err != nil {
			return answer{}, err
		}
	} else if err := d.history(r, v, &p); err != nil {
		return answer{}, err
	}
	return answer{page: "overview", title: "Overview", nav: "/dashboard/", body: p, htmx: true}, nil
}

// history adds the chart and the sums of the past days.
func (d *dashboard) history(r *http.Request, v visit, p *overviewPage) error {
	length := standardDays
	for _, n := range chartDays {
		if r.URL.Query().Get("days") == strconv.Itoa(n) {
			length = n
		}
	}
	for _, n := range chartDays {
		p.Ranges = append(p.Ranges, tab{Name: strconv.Itoa(n), Path: "/dashboard/?days=" + strconv.Itoa(n), Current: n == length})
	}
	today := pay.DayOf(v.now)
	since := today.AddDate(0, 0, 1-length)
	sum, err := d.Books.SummaryIn(r.Context(), v.scope(), books.SummaryQuery{From: since, To: today})
	if err != nil {
		return err
	}
	p.Chart = newChart(sum.Days)
	during := fmt.Sprintf("the last %d days", length)
	p.Hosts = newShares("hosts", "Hosts", "Host", "What was spent at which host in "+during, "No host was paid in "+during+".", sum.Hosts, func(name string) string {
		return filter{Host: name, period: period{From: since}}.path("")
	})
	p.Tasks = newShares("tasks", "Tasks", "Task", "What was spent on which task in "+during,
		"Nothing was paid with a task label. The proxy's password, or purser exec --task, sets one.", sum.Tasks, func(name string) string {
			return filter{Task: name, period: period{From: since}}.path("")
		})
	return nil
}

// live serves GET /dashboard/live, which the overview polls. It answers 204 when nothing has
// changed. ?seen= is the fingerprint of the shown news. ?newest= is the newest shown payment.
func (d *dashboard) live(r *http.Request, v visit) (answer, error) {
	if r.Header.Get("HX-Request") != "true" {
		return answer{redirect: "/dashboard/"}, nil
	}
	n, err := d.news(r.Context(), v)
	if err != nil {
		return answer{}, err
	}
	if r.URL.Query().Get("seen") == n.fingerprint() {
		return answer{status: http.StatusNoContent}, nil
	}
	// After the first payment, chart and tables replace the first steps.
	if r.URL.Query().Get("newest") == "" && len(n.Feed.Payments) > 0 {
		return answer{refresh: true}, nil
	}
	n.Swap = true
	n.Feed.Poll = n.poll()
	fresh := 0
	for i := range n.Feed.Payments {
		if p := &n.Feed.Payments[i]; p.ID > r.URL.Query().Get("newest") { // ids are UUIDv7: later ones are greater
			p.Fresh = true
			fresh++
		}
	}
	switch {
	case fresh == 1:
		n.Announce = fmt.Sprintf("New payment: %s to %s", n.Feed.Payments[0].Amount, n.Feed.Payments[0].Site)
	case fresh > 1:
		n.Announce = count(fresh) + " new payments"
	}
	return answer{page: "overview", part: "live", body: n}, nil
}

// news collects the parts of the overview that are kept fresh.
func (d *dashboard) news(ctx context.Context, v visit) (*news, error) {
	sum, err := d.month(ctx, v, "")
	if err != nil {
		return nil, err
	}
	use, err := d.Books.UsageIn(ctx, v.scope())
	if err != nil {
		return nil, err
	}
	open, err := d.Books.PendingIn(ctx, v.scope())
	if err != nil {
		return nil, err
	}
	latest, err := d.Books.PaymentsIn(ctx, v.scope(), "", feedLength)
	if err != nil {
		return nil, err
	}
	n := &news{
		Month: spentOf(sum.Total()), MonthName: v.now.Format("January"), Quota: d.quota(v, use),
		Pending: pending{Count: open.Count.String(), Any: !open.Count.IsZero(), Amount: amountOf(open.Amount, false, currency)},
		scope:   v.scope().String(),
	}
	if len(sum.Days) > 0 {
		n.Today = spentOf(sum.Days[len(sum.Days)-1].Sum)
	}
	for _, p := range latest {
		n.Feed.Payments = append(n.Feed.Payments, rowOf(p, recent(p.Created, v.now)))
	}
	n.Attention, err = d.attention(ctx, v)
	return n, err
}

// quota returns the organization's use of its monthly payments. It is empty without plans.
func (d *dashboard) quota(v visit, use books.Usage) quota {
	if !d.planned(v) {
		return quota{}
	}
	q := quota{
		meter: newMeter("", use.Payments, use.Plan.Payments), Left: count(max(0, use.Plan.Payments-use.Payments)),
		Plan: planName(use.Plan.Name), Resets: momentOf(use.Resets, "2 January"),
	}
	if q.Class != "" {
		q.Upgrade = d.upgrade(v)
	}
	return q
}

// fingerprint returns a hash of all shown news.
func (n *news) fingerprint() string {
	shown := *n
	shown.Swap, shown.Announce = false, ""
	text, _ := json.Marshal(shown) // strings and numbers only
	sum := sha256.Sum256(append(text, n.scope...))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// poll returns the URL that asks for later news.
func (n *news) poll() string {
	q := url.Values{"seen": {n.fingerprint()}}
	if len(n.Feed.Payments) > 0 {
		newest := n.Feed.Payments[0].ID
		for _, p := range n.Feed.Payments {
			newest = max(newest, p.ID)
		}
		q.Set("newest", newest)
	}
	return "/dashboard/live?" + q.Encode()
}

// shares lists the hosts, or tasks, with the most spend.
type shares struct {
	ID, Title, Column, Caption, None, Decimals string
	Rows                                       []share
}

type share struct {
	Name, Path, Count string
	Net               amount
	Mille             int
}

func newShares(id, title, col, caption, none string, sums []pay.NameSum, path func(string) string) shares {
	s := shares{ID: id, Title: title, Column: col, Caption: caption, None: none}
	if !slices.ContainsFunc(sums, func(n pay.NameSum) bool { return n.Name != "" && n.Name != pay.RestName }) {
		return s
	}
	sums = slices.Clone(sums)
	slices.SortStableFunc(sums, func(a, b pay.NameSum) int {
		switch pay.RestName { // comes last
		case a.Name:
			return 1
		case b.Name:
			return -1
		}
		return cmp.Compare(drawn(b.Sum), drawn(a.Sum))
	})
	var rest pay.Sum
	var shown []amount
	most := drawn(sums[0].Sum)
	add := func(name, path string, sum pay.Sum) {
		row := share{Name: name, Path: path, Count: count(sum.Count), Net: netOf(sum), Mille: ratio(sum, most)}
		row.Net.Currency = "" // the column's title has it
		s.Rows, shown = append(s.Rows, row), append(shown, row.Net)
	}
	for i, sum := range sums {
		switch {
		case i >= sharesShown || sum.Name == pay.RestName:
			rest.Add(sum.Sum)
		case sum.Name == "":
			add("without one", "", sum.Sum)
		default:
			add(cut(sum.Name, maxTitle), path(sum.Name), sum.Sum)
		}
	}
	if rest != (pay.Sum{}) {
		add("all others", "", rest)
	}
	s.Decimals = column(shown...)
	return s
}

// ratio returns a sum in thousandths of the largest one. Any spend is visible.
func ratio(s pay.Sum, most float64) int {
	if net := drawn(s); net > 0 {
		return max(4, int(1000*net/most))
	}
	return 0
}

type start struct {
	Operator, HasKey, HasWallet  bool
	KeyName, KeyPath, WalletPath string
	Commands                     []command
}

func (d *dashboard) start(r *http.Request, v visit) (*start, error) {
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return nil, err
	}
	wallets, err := d.Books.WalletsIn(r.Context(), v.scope())
	if err != nil {
		return nil, err
	}
	s := &start{Operator: v.operator(), HasKey: len(keys) > 0, HasWallet: len(wallets) > 0, Commands: d.tryCommands(r)}
	if s.HasKey {
		s.KeyName, s.KeyPath = label(keys[0]), keyPath(keys[0].ID)
	}
	if s.HasWallet {
		s.WalletPath = walletPath(wallets[0].ID)
	}
	return s, nil
}

// tryCommands returns commands that pay for something with the key in $PURSER_KEY.
func (d *dashboard) tryCommands(r *http.Request) []command {
	list := [][2]string{
		{"the command that pays for one request", `purser exec --key "$PURSER_KEY" --task demo -- curl -i ` + d.Example},
		{"the command that runs an agent", `purser exec --key "$PURSER_KEY" --task nightly -- python3 agent.py`},
	}
	if at, plain := strings.CutPrefix(d.address(r), "http://"); plain && strings.HasPrefix(d.Example, "http://") {
		list = append(list, [2]string{"the command without purser exec", `curl -i -x "http://$PURSER_KEY:demo@` + at + `" ` + d.Example})
	}
	return commands(list...)
}
