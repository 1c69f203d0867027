package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

const feedLength = 12

// news holds the parts of the overview that are kept fresh. Each poll replaces all of them, so that
// no figure is older than another.
type news struct {
	figures
	Attention    []attention
	Chart        *chart // nil before the first payment
	Hosts, Tasks shares
	Feed         feed
	Swap         bool   `json:"-"` // sent to replace the parts of a shown page
	Announce     string `json:"-"` // for screen readers
	scope        string
	shown        url.Values // what the chart shows, for the next poll
}

type feed struct {
	Payments []paymentRow
	Poll     string `json:"-"` // URL of the next poll; it says what is shown already
	Soon     bool   `json:"-"` // poll at once, because a figure was not known in time
}

type paymentRow struct {
	ID, Path, Task, Reason string
	Means                  string
	Site                   site
	Payee, PayeePath       string
	KeyName, KeyPath       string
	Amount                 amount
	State                  state
	When                   moment
	Fresh, Withdraws       bool `json:"-"`
}

func rowOf(p *pay.Payment, when moment) paymentRow {
	return paymentRow{
		ID: p.ID, Path: "/dashboard/payments/" + p.ID, Site: siteOf(p.RequestURL), Task: cut(p.Task, maxName), Reason: cut(p.Reason, maxTitle),
		Amount: amountOf(p.Moved(), false, cut(p.Currency, 12)), State: stateOf(p), When: when, Withdraws: p.Withdraws(), Means: p.Means().Words(),
	}
}

type overviewPage struct {
	*news
	Empty bool // no payment was ever made
	All   everything
	Start *start
	Bar   chartBar
}

// tab is a link in a row of choices.
type tab struct {
	Name, Path string
	Current    bool
}

// overview serves GET /dashboard/. ?range=, ?from= and ?to= are the days of the chart, ?by= splits it.
func (d *dashboard) overview(r *http.Request, v visit) (answer, error) {
	m, err := d.money(r.Context(), v, moneyWait)
	if err != nil {
		return answer{}, err
	}
	return d.inTurn(func(r *http.Request, v visit) (answer, error) {
		view := chartViewOf(r.URL.Query(), v.now)
		n, err := d.news(r.Context(), v, m, view)
		if err != nil {
			return answer{}, err
		}
		p := overviewPage{news: n, Empty: len(n.Feed.Payments) == 0, Bar: chartBarOf(view)}
		if p.All, err = d.everything(r.Context(), v); err != nil {
			return answer{}, err
		}
		n.Feed.Poll, n.Feed.Soon = n.poll(), n.Money.Late
		if p.Empty {
			if p.Start, err = d.start(r, v); err != nil {
				return answer{}, err
			}
		}
		a := answer{page: "overview", title: "Overview", nav: "/dashboard/", body: p, htmx: true}
		if len(view.wrong) > 0 {
			a.status = http.StatusUnprocessableEntity
		}
		return a, nil
	})(r, v)
}

// live serves GET /dashboard/live, which the overview polls. It answers 204 when nothing has
// changed. ?seen= is the fingerprint of the shown news. ?newest= is the newest shown payment. The rest
// is the query of the page.
func (d *dashboard) live(r *http.Request, v visit) (answer, error) {
	if r.Header.Get("HX-Request") != "true" {
		return answer{redirect: "/dashboard/"}, nil
	}
	m, err := d.money(r.Context(), v, moneyWaitLive)
	if err != nil {
		return answer{}, err
	}
	return d.inTurn(func(r *http.Request, v visit) (answer, error) {
		q := r.URL.Query()
		n, err := d.news(r.Context(), v, m, chartViewOf(q, v.now))
		if err != nil {
			return answer{}, err
		}
		return n.since(q.Get("seen"), q.Get("newest")), nil
	})(r, v)
}

// since returns the news for a page that has seen some already.
func (n *news) since(seen, newest string) answer {
	if seen == n.fingerprint() {
		return answer{status: http.StatusNoContent}
	}
	// After the first payment, chart and tables replace the first steps.
	if newest == "" && len(n.Feed.Payments) > 0 {
		return answer{refresh: true}
	}
	n.Swap, n.Hosts.Swap, n.Tasks.Swap, n.Held.Menu.Swap = true, true, true, true
	n.Feed.Poll = n.poll()
	fresh := 0
	for i := range n.Feed.Payments {
		if p := &n.Feed.Payments[i]; p.ID > newest { // ids are UUIDv7: later ones are greater
			p.Fresh = true
			fresh++
		}
	}
	switch {
	case fresh == 1 && n.Feed.Payments[0].Withdraws:
		n.Announce = fmt.Sprintf("%s: %s", n.Feed.Payments[0].Site.Text, n.Feed.Payments[0].Amount)
	case fresh == 1:
		n.Announce = fmt.Sprintf("New payment: %s to %s", n.Feed.Payments[0].Amount, n.Feed.Payments[0].Site.Text)
	case fresh > 1:
		n.Announce = count(fresh) + " new payments"
	}
	return answer{page: "overview", part: "live", body: n}
}

// news collects the parts of the overview that are kept fresh.
func (d *dashboard) news(ctx context.Context, v visit, m funds, view chartView) (*news, error) {
	n := &news{scope: v.scope().String(), shown: view.values()}
	var err error
	if n.figures, err = d.figures(ctx, v, m); err != nil {
		return nil, err
	}
	latest, err := d.Books.PaymentsIn(ctx, v.scope(), "", feedLength)
	if err != nil {
		return nil, err
	}
	for _, p := range latest {
		n.Feed.Payments = append(n.Feed.Payments, rowOf(p, recent(p.Created, v.now)))
	}
	if n.Attention, err = d.attention(ctx, v); err != nil || len(latest) == 0 {
		return n, err
	}
	return n, d.history(ctx, v, view, n)
}

// history adds the chart and the sums of its days.
func (d *dashboard) history(ctx context.Context, v visit, view chartView, n *news) error {
	keys, err := d.Books.KeysIn(ctx, v.scope())
	if err != nil {
		return err
	}
	tally, s := pay.NewTally(view.From, view.To), newSplit(view, names(keys))
	err = d.Books.VisitSpendIn(ctx, v.scope(), "", view.From, view.To, pay.SpendDays{
		Day: func(keyID string, day time.Time, total pay.Sum) {
			tally.Day(day, total)
			s.key(keyID, day, total)
		},
		Host: func(_ string, day time.Time, name []byte, sum pay.Sum) {
			tally.Host(name, sum)
			s.host(day, name, sum)
		},
		Task: func(_ string, day time.Time, name []byte, sum pay.Sum) {
			tally.Task(name, sum)
			s.task(day, name, sum)
		},
	})
	if err != nil {
		return err
	}
	sum := tally.Summary()
	n.Chart = new(newChart(sum.Days, view, s.lanes()))
	during := view.text()
	n.Hosts = newShares("hosts", "Hosts", "Host", "What was spent at which host "+during, "No host was paid "+during+".", sum.Hosts, func(name string) string {
		return filter{Host: name, period: view.period}.path()
	})
	n.Tasks = newShares("tasks", "Tasks", "Task", "What was spent on which task "+during,
		"Nothing was paid with a task label. The proxy's password, or purser exec --task, sets one.", sum.Tasks, func(name string) string {
			return filter{Task: name, period: view.period}.path()
		})
	return nil
}

// fingerprint returns a hash of all shown news.
func (n *news) fingerprint() string {
	text, _ := json.Marshal(n) // strings and numbers only
	sum := sha256.Sum256(append(text, n.scope...))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// poll returns the URL that asks for later news.
func (n *news) poll() string {
	q := url.Values{"seen": {n.fingerprint()}}
	for name, values := range n.shown {
		q[name] = values
	}
	if len(n.Feed.Payments) > 0 {
		newest := n.Feed.Payments[0].ID
		for _, p := range n.Feed.Payments {
			newest = max(newest, p.ID)
		}
		q.Set("newest", newest)
	}
	return "/dashboard/live?" + q.Encode()
}

// quota is the use of an organization's monthly payments.
type quota struct {
	meter
	Left, Plan, Upgrade string
	Resets              moment
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
