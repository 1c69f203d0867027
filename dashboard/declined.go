package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

const declinedRows = 100

type declinedPage struct {
	Bar      filterBar
	Filtered bool
	Count    string // in words
	Reasons  []reasonCount
	Rows     []declinedRow
	Decimals string
	Text     string // the period
	None     emptyList
	Pager    pager
}

type reasonCount struct {
	Word, Why, Path, Count string
	Mille                  int
}

type declinedRow struct {
	Reason, Why, Host, Task, Detail, Count string
	Advice, AdvicePath                     string
	KeyName, KeyPath                       string
	First, Last                            moment
	Days                                   bool // First is another day than Last
	Price                                  *amount
}

// declinedPeriod is the period of the page without another one.
func declinedPeriod(f filter, v visit) filter {
	if f.Name == "" && f.From.IsZero() && f.To.IsZero() && len(f.wrong) == 0 {
		f.Name = presetWeek
		f.From, f.To, _ = daysOf(presetWeek, v.now)
	}
	return f
}

// declined serves GET /dashboard/declined: what purser did not pay, by reason and host. The query is
// a filter: see filterOf. ?state= is a reason.
func (d *dashboard) declined(r *http.Request, v visit) (answer, error) {
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	f := filterOf(r.URL.Query(), v.now)
	f.Task, f.Payee, f.payee = "", "", nil
	filtered := f.any()
	f = declinedPeriod(f, v)
	p := declinedPage{Bar: barOf(declinedPath, f, keys), Filtered: filtered, Text: f.text(), Pager: pager{CSV: withQuery(declinedPath+".csv", f.values())}}
	p.Bar.Filtered = filtered
	a := answer{page: "declined", title: "Declined", nav: declinedPath}
	if len(f.wrong) > 0 {
		a.status, a.body = http.StatusUnprocessableEntity, p
		return a, nil
	}
	list, err := d.declinedIn(r.Context(), v, f)
	if err != nil {
		return answer{}, err
	}
	p.Count = requests(declinedCount(list))
	p.Reasons = reasonsOf(list, f)
	named := names(keys)
	var shown []amount
	for _, one := range list[:min(len(list), declinedRows)] {
		row := declinedRowOf(one, named)
		if row.Price != nil {
			shown = append(shown, *row.Price)
		}
		p.Rows = append(p.Rows, row)
	}
	if n := len(list) - len(p.Rows); n > 0 {
		p.Pager.Note = count(n) + " more are in the export."
	}
	switch {
	case len(list) > 0:
	case filtered:
		p.None = emptyList{"Nothing matches the filter.", declinedPath, "Show the last 7 days"}
	default:
		p.None.Text = "purser declined nothing in the last 7 days."
	}
	p.Decimals = column(shown...)
	a.body = p
	return a, nil
}

// requests counts requests in words.
func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return count(n) + " requests"
}

func declinedCount(list []pay.Declined) (n int) {
	for _, d := range list {
		n += d.Count
	}
	return n
}

// declinedIn lists what was declined, each key, reason and host once, the latest first.
func (d *dashboard) declinedIn(ctx context.Context, v visit, f filter) ([]pay.Declined, error) {
	if err := f.checkKey(); err != nil {
		return nil, err
	}
	q := books.DeclinedQuery{KeyID: f.KeyID, Reason: f.State, Host: f.Host, From: f.From, To: f.To}
	return d.Books.DeclinedIn(ctx, v.scope(), q, v.now)
}

// reasonsOf adds up declines by reason, the most frequent first.
func reasonsOf(list []pay.Declined, f filter) (reasons []reasonCount) {
	by := map[string]int{}
	for _, d := range list {
		by[d.Reason] += d.Count
	}
	words := make([]string, 0, len(by))
	for word := range by {
		words = append(words, word)
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	for _, word := range words[:min(len(words), sharesShown)] {
		only := f
		only.State = word
		r := reasonCount{Word: reasonName(word), Why: whyDeclined(word), Count: count(by[word]), Mille: max(4, 1000*by[word]/by[words[0]])}
		if word != pay.RestName {
			r.Path = only.on(declinedPath, "")
		}
		reasons = append(reasons, r)
	}
	return reasons
}

func declinedRowOf(d pay.Declined, named map[string]string) declinedRow {
	row := declinedRow{
		Reason: reasonName(d.Reason), Why: whyDeclined(d.Reason), Host: hostName(d.Host), Task: cut(d.Task, maxName), Detail: cut(d.Detail, maxTitle),
		Count: count(d.Count), First: momentOf(d.First, "2 Jan"), Last: momentOf(d.Last, inTable),
	}
	row.Days = !pay.DayOf(d.First).Equal(pay.DayOf(d.Last))
	if d.Price != nil {
		price := amountOf(*d.Price, false, currency)
		row.Price = &price
	}
	if d.KeyID != "" {
		row.KeyName, row.KeyPath = named[d.KeyID], keyPath(d.KeyID)
	}
	row.Advice, row.AdvicePath = adviceOn(d, row.KeyName)
	return row
}

// reasonName returns a reason as pages show it.
func reasonName(word string) string {
	if word == pay.RestName {
		return "other reasons"
	}
	return cut(word, maxName)
}

func hostName(host string) string {
	switch host {
	case pay.RestName:
		return "other hosts"
	case "":
		return "no host"
	}
	if policy.ToolOf(host) != "" {
		return cut(host, maxTitle)
	}
	return cut(host, maxText)
}

// whyDeclined explains a reason in a sentence.
func whyDeclined(word string) string {
	if word == pay.RestName {
		return "More reasons and hosts were declined on these days than purser keeps apart."
	}
	why := declines.Why(word)
	if why == "" {
		return ""
	}
	return strings.ToUpper(why[:1]) + why[1:] + "."
}

// adviceOn says what a person can do about a reason, with a link to where.
func adviceOn(d pay.Declined, keyName string) (text, path string) {
	limits := keyPath(d.KeyID) + "#limits"
	of := " of the key " + keyName
	if d.KeyID == "" {
		limits, of = "", ""
	}
	for _, p := range policy.Periods {
		switch d.Reason {
		case p.Rule():
			return "Raise the " + p.Word() + " budget" + of + ", or wait for the next " + p.Noun(), limits
		case "host-" + p.Rule():
			return "Change the limits for this host" + of, limits
		case "task-" + p.Rule():
			return "Change the limits for this task" + of, limits
		}
	}
	switch d.Reason {
	case pay.RuleTaskTotal, pay.RuleTaskEnded:
		return "Change the limits for this task" + of, limits
	case "per-payment":
		return "Raise the limit for one payment" + of, limits
	case "host-per-payment":
		return "Change the limits for this host" + of, limits
	case "task-per-payment":
		return "Change the limits for this task" + of, limits
	case "per-minute":
		return "Raise the number of payments a minute" + of, limits
	case "price-guard":
		return "Look at the seller's price. If it is right, change the price guard" + of, limits
	case "hosts":
		return "If you trust this host, allow it in the limits" + of, limits
	case "payees", "offer-signature":
		return "If you trust this seller, allow it in the limits" + of, limits
	case "doors":
		return "Allow the door in the limits" + of, limits
	case "paused":
		return "Resume the key" + strings.TrimPrefix(of, " of the key") + ", if it may pay again", strings.TrimSuffix(limits, "#limits")
	case "host-paused":
		return "Resume the host" + of + ", if it may be paid again", strings.TrimSuffix(limits, "#limits")
	case "approval-needed":
		return "Approve or deny the payment", "/dashboard/approvals"
	case "wallet-code":
		return "Pay from another wallet" + of, "/dashboard/wallets"
	case "insufficient-funds", "no-wallet", "no-wallet-provider", "allowance-needed":
		return "Send USDC to the wallet" + of, "/dashboard/wallets"
	case "quota":
		return "Choose a larger plan", "/dashboard/settings"
	case "unanswered", "redirected", "seller-failing", "payment-open", "paid-not-delivered":
		return "Look at the payments to this host", filter{Host: d.Host, KeyID: d.KeyID}.on(paymentsPath, "")
	}
	return "", ""
}
