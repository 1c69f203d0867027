package dashboard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

const (
	approvalsPath = "/dashboard/approvals"
	approvalRows  = 50
	// waitingRows bounds the waiting payments on the page of all approvals.
	waitingRows = 100
	// maxWaiting bounds the count in the menu.
	maxWaiting = 99
)

func approvalPath(id string) string { return approvalsPath + "/" + id }

type approvalsPage struct {
	Tabs          []tab
	About         string
	Waiting       *waitingList // nil where waiting payments have no place
	List          bool         // rows are listed
	Rows          []approvalRow
	Caption, None string
	Decimals      string
	Later         bool
	First, Next   string
}

// waitingList holds the payments that wait, which the page keeps fresh.
type waitingList struct {
	Rows     []approvalRow
	Decimals string
	More     string // the path of the others; "": there are none
	Poll     string `json:"-"`
	Swap     bool   `json:"-"`
	Announce string `json:"-"`
	Count    waitingCount
	newest   string
}

// waitingCount is the number in the menu.
type waitingCount struct {
	Text string // "" for none
	Swap bool   `json:"-"`
}

type approvalRow struct {
	ID, Path, Site, Method, Task string
	KeyName, KeyPath             string
	Amount                       amount
	State                        state
	Asked, Answered, Expires     moment
	Left                         string // until it expires
	By                           string
}

// approvalTabs lists the states by which approvals are listed, with texts for each.
var approvalTabs = []struct {
	state             pay.ApprovalState
	name, about, none string
}{
	{"", "All", "Payments that a key may make only once a person agrees to exactly their terms.", "No approval was answered or has expired yet. Limits of a key hold payments: above an amount, or to hosts that it has never paid."},
	{pay.ApprovalPending, "Waiting", "These payments wait for an answer.", "No payment waits."},
	{pay.ApprovalApproved, "Approved", "These payments were approved and are not made yet: purser makes them when the agent repeats its request.", "No approved payment waits for its agent."},
	{pay.ApprovalUsed, "Used", "These payments were approved and begun.", "No approval was used yet."},
	{pay.ApprovalDenied, "Denied", "These payments were denied. Nothing was paid.", "No payment was denied."},
	{pay.ApprovalExpired, "Expired", "No person answered in time, or the agent did not come back. Nothing was paid.", "No approval has expired."},
}

// approvals serves GET /dashboard/approvals. ?state= selects a state, and ?before= is the last approval
// of the page before. With ?seen= it answers the poll of the page: 204 when nothing has changed.
func (d *dashboard) approvals(r *http.Request, v visit) (answer, error) {
	q := r.URL.Query()
	of, before := pay.ApprovalState(q.Get("state")), q.Get("before")
	if before != "" && !isID(before) {
		return answer{}, errNotFound
	}
	p := approvalsPage{Later: before != "", First: approvalsOn(of, "")}
	known := false
	for _, t := range approvalTabs {
		p.Tabs = append(p.Tabs, tab{Name: t.name, Path: approvalsOn(t.state, ""), Current: t.state == of})
		if t.state == of {
			known, p.About, p.None, p.Caption = true, t.about, t.none, t.name+" approvals, newest first"
		}
	}
	if !known {
		return answer{}, errNotFound
	}
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	named := names(keys)
	if before == "" && (of == "" || of == pay.ApprovalPending) {
		if p.Waiting, err = d.waiting(r.Context(), v, of, named); err != nil {
			return answer{}, err
		}
	}
	if p.Waiting != nil && r.Header.Get("HX-Request") == "true" {
		return p.Waiting.news(q), nil
	}
	if p.List = p.Waiting == nil || of == ""; p.List {
		if err := d.answeredRows(r.Context(), v, &p, of, before, named); err != nil {
			return answer{}, err
		}
	}
	return answer{page: "approvals", title: "Approvals", nav: approvalsPath, body: p, htmx: p.Waiting != nil}, nil
}

func approvalsOn(of pay.ApprovalState, before string) string {
	q := url.Values{}
	if of != "" {
		q.Set("state", string(of))
	}
	if before != "" {
		q.Set("before", before)
	}
	return withQuery(approvalsPath, q)
}

// answeredRows adds the rows of a state, or those that do not wait any more.
func (d *dashboard) answeredRows(ctx context.Context, v visit, p *approvalsPage, of pay.ApprovalState, before string, named map[string]string) error {
	list, err := d.Books.ApprovalsIn(ctx, v.scope(), pay.ApprovalQuery{State: of, Before: before, Limit: approvalRows + 1, Now: v.now})
	if err != nil {
		return err
	}
	if len(list) > approvalRows {
		list = list[:approvalRows]
		p.Next = approvalsOn(of, list[approvalRows-1].ID)
	}
	var shown []amount
	for _, a := range list {
		if of == "" && a.State(v.now) == pay.ApprovalPending {
			continue
		}
		row := approvalRowOf(v, a, named)
		p.Rows, shown = append(p.Rows, row), append(shown, row.Amount)
	}
	p.Decimals = column(shown...)
	return nil
}

// waiting lists the payments that wait, those that expire first at the top.
func (d *dashboard) waiting(ctx context.Context, v visit, of pay.ApprovalState, named map[string]string) (*waitingList, error) {
	list, err := d.Books.ApprovalsIn(ctx, v.scope(), pay.ApprovalQuery{State: pay.ApprovalPending, Limit: waitingRows + 1, Now: v.now})
	if err != nil {
		return nil, err
	}
	w := &waitingList{Count: waitingCount{Text: waitingText(len(list))}}
	if len(list) > waitingRows {
		list = list[:waitingRows]
		w.More = approvalsOn(pay.ApprovalPending, list[waitingRows-1].ID)
	}
	var shown []amount
	for _, a := range list {
		row := approvalRowOf(v, a, named)
		w.Rows, shown = append(w.Rows, row), append(shown, row.Amount)
		w.newest = max(w.newest, a.ID)
	}
	w.Decimals = column(shown...)
	q := url.Values{"seen": {fingerprintOf(w, v)}, "newest": {w.newest}}
	if of != "" {
		q.Set("state", string(of))
	}
	w.Poll = withQuery(approvalsPath, q)
	return w, nil
}

// fingerprintOf returns a hash of what is shown to a visitor.
func fingerprintOf(shown any, v visit) string {
	text, _ := json.Marshal(shown) // strings and numbers only
	sum := sha256.Sum256(append(text, v.scope().String()...))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// news answers a poll of the page.
func (w *waitingList) news(q url.Values) answer {
	if poll, err := url.Parse(w.Poll); err == nil && poll.Query().Get("seen") == q.Get("seen") {
		return answer{status: http.StatusNoContent}
	}
	w.Swap, w.Count.Swap = true, true
	fresh := 0
	var newest approvalRow
	for _, row := range w.Rows {
		if row.ID > q.Get("newest") { // ids are UUIDv7: later ones are greater
			fresh++
			newest = row
		}
	}
	switch {
	case fresh == 1:
		w.Announce = "A payment waits for approval: " + newest.Amount.String() + " to " + newest.Site
	case fresh > 1:
		w.Announce = count(fresh) + " more payments wait for approval"
	}
	return answer{page: "approvals", part: "waiting-news", body: w}
}

// waitingCount counts the payments that wait in what the visitor sees, up to a bound. A page does not
// fail because it cannot be told.
func (d *dashboard) waitingCount(ctx context.Context, v visit) waitingCount {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	list, err := d.Books.ApprovalsIn(ctx, v.scope(), pay.ApprovalQuery{State: pay.ApprovalPending, Limit: maxWaiting + 1, Now: v.now})
	if err != nil {
		return waitingCount{}
	}
	return waitingCount{Text: waitingText(len(list))}
}

func waitingText(n int) string {
	switch {
	case n == 0:
		return ""
	case n > maxWaiting:
		return strconv.Itoa(maxWaiting) + "+"
	}
	return strconv.Itoa(n)
}

func approvalRowOf(v visit, a pay.Approval, named map[string]string) approvalRow {
	row := approvalRow{
		ID: a.ID, Path: approvalPath(a.ID), Site: cmp.Or(siteOf(a.URL).Text, "a host that is not known"), Method: cut(a.Method, 12), Task: cut(a.Task, maxName),
		KeyName: named[a.KeyID], KeyPath: keyPath(a.KeyID), Amount: amountOf(a.Terms.Amount, false, cut(a.Currency, 12)), State: approvalStateOf(a, v.now),
		Asked: momentOf(a.Created, inTable), Expires: momentOf(a.Expires, "2 Jan, 15:04"), Left: timeLeft(a.Expires, v.now),
	}
	if a.Answer != "" {
		row.Answered, row.By = momentOf(a.Answered, inTable), byOf(v, a.By)
	}
	return row
}

func approvalStateOf(a pay.Approval, now time.Time) state {
	switch a.State(now) {
	case pay.ApprovalPending:
		return state{"Waiting", "open"}
	case pay.ApprovalApproved:
		return state{"Approved", "open"}
	case pay.ApprovalDenied:
		return state{"Denied", "void"}
	case pay.ApprovalExpired:
		return state{"Expired", "void"}
	case pay.ApprovalUsed:
	}
	return state{"Used", ""}
}

// timeLeft says in words how long it is until a time.
func timeLeft(until, now time.Time) string {
	left := until.Sub(now)
	plural := func(n int, unit string) string {
		if n == 1 {
			return "1 " + unit
		}
		return strconv.Itoa(n) + " " + unit + "s"
	}
	switch {
	case left <= 0:
		return "no time"
	case left < time.Minute:
		return "less than a minute"
	case left < 2*time.Hour:
		return plural(int(left/time.Minute), "minute")
	case left < 48*time.Hour:
		return plural(int(left/time.Hour), "hour")
	}
	return plural(int(left/(24*time.Hour)), "day")
}

// byOf names an actor to a visitor. Organizations are not told the names of operators.
func byOf(v visit, by pay.Actor) string {
	switch {
	case v.operator():
		return cut(strings.TrimSpace(by.String()), maxName)
	case by.Kind != pay.ActorAccount:
		return "the operator"
	case by.ID == v.Account.ID:
		return "you"
	}
	return "account " + tail(by.ID)
}
