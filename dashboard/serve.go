package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

//go:embed templates/*.html
var templateFiles embed.FS

// Bounds of a request.
const (
	pageTime = 10 * time.Second // for making a page
	maxForm  = 64 << 10         // of a posted form, in bytes
	minZip   = 256              // shortest text that is compressed, in bytes
)

type visit struct {
	session.Visitor
	now time.Time
}

// operator reports whether the visitor sees what the operator sees. The visitor's right to change
// things is another question: see needs.
func (v visit) operator() bool { return v.All }

// scope says whose keys the visitor sees. Every page reads the books through it.
func (v visit) scope() books.Scope {
	if v.operator() {
		return books.OfOperator()
	}
	return books.OfOrganization(v.Account.OrganizationID)
}

// name returns the name of the visitor for pages.
func (v visit) name() string {
	switch {
	case v.Account.ID != "":
		return nameOf(v.Account)
	case v.Name == "":
		return "Operator"
	}
	return cut("Operator "+v.Name, maxName)
}

// roleName returns the role for the frame of pages. A visitor with a link is called an operator
// already, and an owner may do everything.
func (v visit) roleName() string {
	if v.Role == session.Owner || v.Account.ID == "" {
		return ""
	}
	return string(v.Role)
}

// answer holds what a view sends: a page, a part of one, a redirect, or nothing.
type answer struct {
	status   int    // 0 means 200
	page     string // name of the template
	part     string // a part of the template, sent without the frame
	title    string
	nav      string // the menu entry that is current
	body     any
	redirect string // target of a redirect
	say      said   // message that the next page shows once
	// secret marks a page that shows a key. It is not compressed, because the length of compressed
	// text reveals content to an attacker who can add to it.
	secret bool
	// refresh reloads the page that asked for a part of itself.
	refresh bool
	htmx    bool // the page has parts that load by themselves
	// stream writes the answer itself. The request has no timeout.
	stream func(http.ResponseWriter, *http.Request) error
}

// view returns the answer to a request. Only page writes.
type view func(r *http.Request, v visit) (answer, error)

// page returns the handler of a view. Every answer is a page, errors too.
func (d *dashboard) page(serve view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := session.From(r.Context())
		if !ok { // the gate admits visitors only; pages check it again
			http.Redirect(w, r, session.To(r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // To leads to paths of the dashboard only
			return
		}
		v := visit{Visitor: who, now: d.Clock().UTC()}
		ctx, cancel := context.WithTimeout(pay.WithActor(r.Context(), v.Actor()), pageTime)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		a, err := d.answer(serve, r.WithContext(ctx), v)
		if err != nil {
			a = d.refuse(r, err, w.Header())
		}
		d.write(w, r, v, a)
	})
}

func (d *dashboard) answer(serve view, r *http.Request, v visit) (answer, error) {
	if r.Method == http.MethodPost {
		if err := d.throttle.takePosts(v.scope().String(), 1, v.now); err != nil {
			return answer{}, err
		}
		if err := r.ParseForm(); err != nil {
			return answer{}, errForm
		}
	}
	return serve(r, v)
}

func (d *dashboard) write(w http.ResponseWriter, r *http.Request, v visit, a answer) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if a.stream != nil {
		h.Set(gzhttp.HeaderNoCompression, "1")
		if err := a.stream(w, r); err != nil {
			d.Logger.Warn("page not sent in full", "route", r.Pattern, "error", err)
			panic(http.ErrAbortHandler) // cut the answer off, so that it does not look complete
		}
		return
	}
	if a.redirect != "" {
		if a.say != "" {
			d.setMessage(w, r, string(a.say), 60)
		}
		http.Redirect(w, r, a.redirect, http.StatusSeeOther)
		return
	}
	if a.refresh {
		h.Set("HX-Refresh", "true")
		a.status = http.StatusNoContent
	}
	if a.status == http.StatusNoContent {
		w.WriteHeader(a.status)
		return
	}
	f := frame{
		Title: a.title, Body: a.body, HTMX: a.htmx, PlayMoney: d.PlayMoney, Version: d.Version, Nav: menu(a.nav), Waiting: d.waitingCount(r.Context(), v), Who: v.name(), Role: v.roleName(),
	}
	if a.part == "" && r.Method != http.MethodHead {
		f.Message = d.takeMessage(w, r)
	}
	if a.part == "" {
		f.Troubles = d.troubles(r.Context(), v)
	}
	d.render(w, a, f)
}

type frame struct {
	Title     string
	Body      any
	HTMX      bool
	PlayMoney bool
	Wide      bool // for pages without a menu
	Version   string
	Who       string
	Role      string // "" for an owner: there is nothing to say
	Nav       []tab
	Waiting   waitingCount // beside the menu entry of approvals
	Message   string
	Troubles  troubles
}

func menu(current string) []tab {
	list := []tab{
		{Name: "Overview", Path: "/dashboard/"},
		{Name: "Approvals", Path: approvalsPath},
		{Name: "Payments", Path: paymentsPath},
		{Name: "Spend", Path: spendPath},
		{Name: "Declined", Path: declinedPath},
		{Name: "API keys", Path: "/dashboard/keys"},
		{Name: "Wallets", Path: "/dashboard/wallets"},
		{Name: "Settings", Path: "/dashboard/settings"},
	}
	for i := range list {
		list[i].Current = list[i].Path == current
	}
	return list
}

// render makes the whole page before its first byte leaves. A fault in a template is then a 500,
// and not half a page.
func (d *dashboard) render(w http.ResponseWriter, a answer, f frame) {
	var text bytes.Buffer
	if err := d.pages.execute(&text, a, f); err != nil {
		d.Logger.Error("page not made", "page", a.page, "error", err)
		a.status = http.StatusInternalServerError
		text.Reset()
		text.WriteString("<!doctype html><title>purser</title><p>Something went wrong here. Its log has more.")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if a.secret {
		w.Header().Set(gzhttp.HeaderNoCompression, "1")
	}
	w.WriteHeader(cmp.Or(a.status, http.StatusOK))
	_, _ = w.Write(text.Bytes()) // ignore a client that has left
}

// WriteUnavailable writes the page that stands for all others while there is no dashboard. why is for people.
func WriteUnavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "<!doctype html><title>purser</title><h1>Not available at the moment</h1><p>"+html.EscapeString(why)) // ignore a client that has left
}

// pages holds the templates by file. Each is parsed when it is first shown: a start has no time for all of them.
type pages map[string]func() *template.Template

func loadPages(a assets) pages {
	base := template.Must(template.New("").Funcs(template.FuncMap{"asset": a.path}).
		ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/lists.html", "templates/limitfields.html", "templates/budgetbar.html", "templates/approvalterms.html"))
	all := pages{}
	entries, _ := templateFiles.ReadDir("templates") // embedded files can be read
	for _, e := range entries {
		all[strings.TrimSuffix(e.Name(), ".html")] = sync.OnceValue(func() *template.Template {
			return template.Must(template.Must(base.Clone()).ParseFS(templateFiles, "templates/"+e.Name()))
		})
	}
	return all
}

func (p pages) execute(b *bytes.Buffer, a answer, f frame) error {
	parsed, ok := p[a.page]
	if !ok {
		return fmt.Errorf("no page %q", a.page)
	}
	t := parsed()
	switch {
	case a.part != "":
		return t.ExecuteTemplate(b, a.part, f.Body)
	case f.Nav == nil:
		return t.ExecuteTemplate(b, "alone", f)
	}
	return t.ExecuteTemplate(b, "page", f)
}
