package dashboard

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

func keyPath(id string) string { return "/dashboard/keys/" + id }

// wrong is the problem of a form's field. It appears beside the field.
type wrong struct{ Field, Text, Link, LinkText string }

// pageRows is the most keys or wallets on a page.
const pageRows = 100

type keysPage struct {
	Operator    bool
	May         permits
	Keys        []keyRow
	Used, Limit string // Used is "" for operators: counting all keys takes too long
	MonthName   string
	Full        bool
	Upgrade     string
	Create      createForm
	KeyWrong    *wrong
	First, Next string // paths of other pages; "" if there are none
}

type keyRow struct {
	ID, Name, Path, Wallets, APayment string
	Owner                             string // for operators
	Shared                            bool   // it draws from wallets of other keys only
	Created                           moment
	Used                              *moment // at any door; nil: never
	Bars                              []budgetBar
	State                             keyState
}

// keys serves GET /dashboard/keys. ?after= is the last key of the page before. Other values fill in the
// form for a new key, after a new sign-in.
func (d *dashboard) keys(r *http.Request, v visit) (answer, error) {
	return d.keysWith(r, v, http.StatusOK, keysPage{Create: d.createForm(v, r.URL.Query(), nil)})
}

// keysWith returns a page of keys. After a form with problems, p holds the typed values and the
// problems.
func (d *dashboard) keysWith(r *http.Request, v visit, status int, p keysPage) (answer, error) {
	after := r.URL.Query().Get("after")
	if after != "" && !isID(after) {
		return answer{}, errNotFound
	}
	list, next, err := d.Books.KeyPage(r.Context(), v.scope(), after, pageRows)
	if err != nil {
		return answer{}, err
	}
	for _, k := range list {
		row, err := d.keyRow(r.Context(), v, k)
		if err != nil {
			return answer{}, err
		}
		p.Keys = append(p.Keys, row)
	}
	if !v.operator() {
		use, err := d.Books.UsageIn(r.Context(), v.scope())
		if err != nil {
			return answer{}, err
		}
		p.Used, p.Limit, p.Full, p.Upgrade = count(use.Keys), d.limitOf(v, use.Plan.Keys), use.Keys >= use.Plan.Keys, d.upgrade(v)
	}
	p.Operator, p.May = v.operator(), v.permits()
	p.MonthName = v.now.Format("January")
	p.First, p.Next = otherPages("/dashboard/keys", after, next)
	return answer{status: status, page: "keys", title: "API keys", nav: "/dashboard/keys", body: p}, nil
}

// otherPages returns the paths of the first and the next page of a list; "" where there is none.
func otherPages(path, after, next string) (first, following string) {
	if after != "" {
		first = path
	}
	if next != "" {
		following = path + "?" + url.Values{"after": {next}}.Encode()
	}
	return first, following
}

func (d *dashboard) keyRow(ctx context.Context, v visit, k pay.Key) (keyRow, error) {
	row := keyRow{
		ID: k.ID, Name: label(k), Path: keyPath(k.ID), Created: momentOf(k.Created, onlyDay), State: keyStateOf(v, k),
		APayment: capText(d.Payer.PolicyOf(k, policy.DoorProxy).MaxPayment, "", ""),
	}
	if v.operator() {
		row.Owner = ownerOf(k)
	}
	if uses := usesOf(k, onlyDay); len(uses) > 0 {
		row.Used = &uses[0].At
	}
	var err error
	if row.Bars, err = d.barsOf(ctx, v, k); err != nil {
		return row, err
	}
	wallets, err := d.Books.ListWallets(ctx, k)
	if err != nil {
		return row, err
	}
	own := 0
	for _, w := range wallets {
		if w.KeyID == k.ID {
			own++
		}
	}
	if own > 0 {
		row.Wallets = count(own)
	}
	row.Shared = own == 0 && len(wallets) > 0
	return row, nil
}

// ownerOf says whose a key is.
func ownerOf(k pay.Key) string {
	switch {
	case k.Exec:
		return "exec"
	case k.Claimed():
		return cut(k.OrganizationID, maxName)
	case k.Operator:
		return "operator"
	}
	return "unclaimed"
}

// month sums up the spend of this month, of one key or of all.
func (d *dashboard) month(ctx context.Context, v visit, keyID string) (pay.Summary, error) {
	today := pay.DayOf(v.now)
	return d.Books.SummaryIn(ctx, v.scope(), books.SummaryQuery{From: today.AddDate(0, 0, 1-today.Day()), To: today, KeyID: keyID})
}

// linkKey serves POST /dashboard/keys/link. The pasted key is never shown again.
func (d *dashboard) linkKey(r *http.Request, v visit) (answer, error) {
	if v.operator() { // the operator has all keys
		return answer{}, errNotFound
	}
	if err := d.throttle.takePosts(v.scope().String(), linkPosts-1, v.now); err != nil {
		return answer{}, err
	}
	k, err := d.Books.LinkKey(r.Context(), v.Account.OrganizationID, strings.TrimSpace(r.PostForm.Get("key")))
	w := wrong{Field: "key"}
	status := http.StatusConflict
	if err == nil {
		d.Logger.Info("API key linked", "key", k.ID, "organization", k.OrganizationID, "account", v.Account.ID)
		return answer{redirect: keyPath(k.ID), say: saidKeyLinked}, nil
	}
	switch pay.Code(err) {
	case pay.CodeKeyNotFound:
		status, w.Text = http.StatusUnprocessableEntity, "No key with this value exists here. Keys begin with pk_ unless their owner chose another form; check that all of it was copied."
	case pay.CodeKeyClaimed:
		w.Text = "This key belongs to another organization. Only a key without an owner can be linked."
	case pay.CodeKeyLinked:
		w.Text = "This key is yours already. It is in the list above."
	case pay.CodeKeyLimit:
		status, w.Text = http.StatusTooManyRequests, "API key limit reached for your plan. A linked key counts like any other."
		w.Link, w.LinkText = d.upgrade(v), "Get a larger plan"
	default:
		return answer{}, err
	}
	return d.keysWith(r, v, status, keysPage{KeyWrong: &w, Create: d.createForm(v, url.Values{}, nil)})
}

type keyPage struct {
	ID, Name, Label, MonthName, Payments, SpendPath string
	Created                                         moment
	Uses                                            []use
	Wallets                                         []link
	Parents, Children                               []link // at most one parent
	Limits                                          []limit
	Bars                                            []budgetBar
	Kept                                            bool // Kept: the key can be shown again
	Owner                                           string
	May                                             permits
	PausedHosts                                     []pausedHost
	State                                           keyState
	AuditPath                                       string
	Raised                                          string // what is raised for a while, and until when
	Secret, SecretTitle                             string
	Commands                                        []command
	Tools                                           toolList // of this month
}

type link struct{ Name, Path string }

// use tells when a key was last used at a door.
type use struct {
	Door string
	At   moment
}

// usesOf lists the doors at which a key was used, the latest use first.
func usesOf(k pay.Key, layout string) []use {
	var list []use
	doors := slices.SortedFunc(maps.Keys(k.Used), func(a, b policy.Door) int {
		return cmp.Or(k.Used[b].Compare(k.Used[a]), cmp.Compare(a, b))
	})
	for _, door := range doors {
		list = append(list, use{string(door), momentOf(k.Used[door], layout)})
	}
	return list
}

// key serves GET /dashboard/keys/{id}. Right after the key was made or revealed, it shows the key.
func (d *dashboard) key(r *http.Request, v visit, k pay.Key) (answer, error) {
	month, err := d.month(r.Context(), v, k.ID)
	if err != nil {
		return answer{}, err
	}
	wallets, err := d.Books.ListWallets(r.Context(), k)
	if err != nil {
		return answer{}, err
	}
	p := keyPage{
		ID: k.ID, Name: label(k), Label: cut(k.Label, 200), Created: momentOf(k.Created, inText), Uses: usesOf(k, inText), MonthName: v.now.Format("January"),
		Payments: payments(month.Total().Count), SpendPath: filter{KeyID: k.ID}.path(), Limits: d.limits(k),
		May: v.permits(), Kept: k.Kept(), State: keyStateOf(v, k), PausedHosts: pausedHosts(v, k), AuditPath: "/dashboard/audit?" + url.Values{"key": {k.ID}}.Encode(),
		Commands: append(d.tryCommands(r), command{
			ID: "command-own", What: "the command that lists what the key has spent", Text: `curl -H "X-Api-Key: $PURSER_KEY" ` + d.address(r) + `/v1/spend`,
		}),
	}
	today := pay.DayOf(v.now)
	if p.Tools, err = d.tools(r.Context(), v, filter{KeyID: k.ID, period: period{Name: presetMonth, From: today.AddDate(0, 0, 1-today.Day()), To: today}}); err != nil {
		return answer{}, err
	}
	p.Tools.Caption = "What tools of MCP servers cost this key in " + p.MonthName
	p.Raised = raiseText(raiseOf(k, v.now))
	if v.operator() {
		p.Owner = ownerOf(k)
	}
	if p.Bars, err = d.barsOf(r.Context(), v, k); err != nil {
		return answer{}, err
	}
	if p.Parents, p.Children, err = d.familyLinks(r.Context(), k); err != nil {
		return answer{}, err
	}
	totals, err := limits.Totals(r.Context(), d.Payer, k)
	if err != nil {
		return answer{}, err
	}
	for _, t := range totals {
		p.Limits = append(p.Limits, limit{"Task " + t.Of, totalText(t, v.now)})
	}
	quota, err := d.Payer.Quota(r.Context(), k)
	if err != nil {
		return answer{}, err
	}
	if quota != nil {
		p.Limits = append(p.Limits, limit{"Your plan", "at most " + thousandsOf(quota.Most.String()) + " payments a month by all your keys: " + thousandsOf(quota.Used.String()) + " are made"})
	}
	if p.Wallets, err = d.walletLinks(r.Context(), v, k, wallets); err != nil {
		return answer{}, err
	}
	a := answer{page: "key", title: p.Name, nav: "/dashboard/keys"}
	if r.Method != http.MethodHead {
		if s, ok := d.once.take(onceFor{v.Session, v.Account.ID, k.ID}, v.now); ok {
			p.Secret, p.SecretTitle, a.secret = s.secret, "The key", true
			if s.made {
				p.SecretTitle = "Your new key"
			}
		}
	}
	a.body = p
	return a, nil
}

// ofKey returns a view of the key in the request's path. For a key of another organization it fails
// with pay.ErrKeyNotFound.
func (d *dashboard) ofKey(serve func(*http.Request, visit, pay.Key) (answer, error)) view {
	return func(r *http.Request, v visit) (answer, error) {
		id, err := pathID(r)
		if err != nil {
			return answer{}, err
		}
		k, err := d.Books.KeyIn(r.Context(), v.scope(), id)
		if err != nil {
			return answer{}, err
		}
		return serve(r, v, k)
	}
}

// revealKey serves POST /dashboard/keys/{id}/reveal. It writes to the log.
func (d *dashboard) revealKey(r *http.Request, v visit, k pay.Key) (answer, error) {
	secret, err := d.Books.RevealKey(r.Context(), v.scope(), k.ID)
	if err != nil {
		return answer{}, err
	}
	d.Logger.Warn("API key revealed on the dashboard", "key", k.ID, "by", v.Actor().String())
	d.once.put(onceFor{v.Session, v.Account.ID, k.ID}, onceSecret{secret: secret}, v.now)
	return answer{redirect: keyPath(k.ID)}, nil
}

// pathID returns the id of the request's path, or an error when it has not the form of one.
func pathID(r *http.Request) (string, error) {
	if id := r.PathValue("id"); isID(id) {
		return id, nil
	}
	return "", errNotFound
}

func isID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.String() == text
}

type option struct {
	ID, Name string
	Chosen   bool
}

func options(keys []pay.Key, chosen string) []option {
	var list []option
	for _, k := range keys {
		list = append(list, option{k.ID, label(k), k.ID == chosen})
	}
	return list
}

func names(keys []pay.Key) map[string]string {
	list := make(map[string]string, len(keys))
	for _, k := range keys {
		list[k.ID] = label(k)
	}
	return list
}

type limit struct{ Name, Text string }

// limits describes the rules of a key at the proxy, where every key has some.
func (d *dashboard) limits(k pay.Key) []limit {
	pol := d.Payer.PolicyOf(k, policy.DoorProxy)
	where := ""
	if k.Policy == nil && !k.Operator {
		where = " at the proxy"
	}
	doors := make([]string, len(pol.Doors))
	for i, door := range pol.Doors {
		doors[i] = string(door)
	}
	list := []limit{
		{"A payment", capText(pol.MaxPayment, "at most ", where)},
	}
	if pol.PerMinute != nil && *pol.PerMinute > 0 {
		list = append(list, limit{"A minute", payments(*pol.PerMinute)})
	}
	list = append(list,
		limit{"Doors", strings.Join(doors, ", ")},
		limit{"Only these hosts", cut(strings.Join(pol.AllowHosts, ", "), maxTitle)},
		limit{"Never these hosts", cut(strings.Join(pol.DenyHosts, ", "), maxTitle)},
		limit{"Signs in to", cut(strings.Join(pol.SignInHosts, ", "), maxTitle)},
	)
	if n := len(pol.AllowPayees); n > 0 {
		list = append(list, limit{"Only to", count(n) + " addresses"})
	}
	if n := len(pol.Hosts) + len(pol.Tasks); n > 0 {
		list = append(list, limit{"Own budgets", count(len(pol.Hosts)) + " hosts, " + count(len(pol.Tasks)) + " tasks"})
	}
	return slices.DeleteFunc(list, func(l limit) bool { return l.Text == "" })
}

// familyLinks lists a key's parent and its children. They are of one organization, so a person who sees one key may see all.
func (d *dashboard) familyLinks(ctx context.Context, k pay.Key) (parents, children []link, err error) {
	if k.Parent != "" {
		parent, err := d.Books.Key(ctx, k.Parent)
		if err != nil {
			return nil, nil, err
		}
		parents = []link{{label(parent), keyPath(parent.ID)}}
	}
	born, err := d.Books.Children(ctx, k)
	for _, child := range born {
		children = append(children, link{label(child), keyPath(child.ID)})
	}
	return parents, children, err
}

// totalText tells what is left of a task's total, and until when.
func totalText(u limits.Use, now time.Time) string {
	text := amountOf(*u.Left, false, currency).String() + " left of " + amountOf(u.Limit, false, currency).String() + " since " + pay.Moment(u.Total.Begin)
	switch {
	case u.Total.Ended(now):
		return text + ". It ended on " + pay.Moment(u.Total.Until)
	case !u.Total.Until.IsZero():
		return text + ", until " + pay.Moment(u.Total.Until)
	}
	return text
}

func capText(c *policy.Cap, before, after string) string {
	if most := c.Max(); most != nil {
		return before + amountOf(*most, false, currency).String() + after
	}
	return ""
}
