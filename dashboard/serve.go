package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/pay"
)

//go:embed templates/*.html
var templateFiles embed.FS

// Bounds of a request.
const (
	pageTime = 10 * time.Second // for making a page
	maxForm  = 64 << 10         // of a posted form, in bytes
	minZip   = 1 << 10          // shortest text that is compressed, in bytes
)

func systemClock() time.Time { return time.Now() }

// visit is one request of a visitor.
type visit struct {
	session.Visitor
	now time.Time
}

func (v visit) org() string { return v.Account.OrganizationID }

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
	htmx    bool                              // the page has parts that load by themselves
	stream  func(w http.ResponseWriter) error // writes the answer itself
}

// view returns the answer to a request. Only page writes.
type view func(r *http.Request, v visit) (answer, error)

// page returns the handler of a view. Every answer is a page, errors too.
func (d *dashboard) page(serve view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := d.Visitor(r.Context())
		if !ok { // the gate admits visitors only; pages check it again
			http.Redirect(w, r, session.To(r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // To leads to paths of the dashboard only
			return
		}
		v := visit{Visitor: who, now: d.Clock().UTC()}
		ctx, cancel := context.WithTimeout(pay.WithActor(r.Context(), pay.Actor{Kind: pay.ActorAccount, ID: v.Account.ID}), pageTime)
		defer cancel()
		inTime := r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		inTime.Body = r.Body
		a, err := d.answer(serve, inTime, v)
		if err != nil {
			a = d.refuse(r, err, w.Header())
		}
		d.write(w, r, v, a)
	})
}

func (d *dashboard) answer(serve view, r *http.Request, v visit) (a answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.logPanic(r, p)
			a, err = answer{}, errInternal
		}
	}()
	if r.Method == http.MethodPost {
		if err := d.throttle.takePosts(v.org(), 1, v.now); err != nil {
			return answer{}, err
		}
		if err := r.ParseForm(); err != nil {
			return answer{}, errForm
		}
	}
	return serve(r, v)
}

// logPanic logs the stack of a panic. It writes out the value only for errors of the runtime: any
// other value may contain a key.
func (d *dashboard) logPanic(r *http.Request, p any) {
	what := fmt.Sprintf("%T", p)
	if err, ok := p.(runtime.Error); ok {
		what = err.Error()
	}
	d.Logger.Error("panic while making a page", "method", r.Method, "route", r.Pattern, "panic", what, "stack", string(debug.Stack()))
}

func (d *dashboard) write(w http.ResponseWriter, r *http.Request, v visit, a answer) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if a.stream != nil {
		if err := a.stream(w); err != nil {
			d.Logger.Warn("page not sent in full", "route", r.Pattern, "error", err)
			panic(http.ErrAbortHandler) // cut the answer off, so that it does not look complete
		}
		return
	}
	if a.redirect != "" {
		d.leaveMessage(w, r, a.say)
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
		Title: a.title, Body: a.body, HTMX: a.htmx, PlayMoney: d.PlayMoney, Version: d.Version, Nav: menu(a.nav), Who: nameOf(v.Account),
	}
	if a.part == "" && r.Method != http.MethodHead {
		f.Message = d.takeMessage(w, r)
	}
	d.render(w, r, a, f)
}

// frame holds the data of the layout around a page's Body.
type frame struct {
	Title     string
	Body      any
	HTMX      bool
	PlayMoney bool
	Wide      bool // for pages without a menu
	Version   string
	Who       string
	Nav       []navEntry
	Message   *message
}

type navEntry struct {
	Name, Path string
	Current    bool
}

func menu(current string) []navEntry {
	list := []navEntry{
		{Name: "Overview", Path: "/dashboard/"},
		{Name: "Spend", Path: "/dashboard/spend"},
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
func (d *dashboard) render(w http.ResponseWriter, r *http.Request, a answer, f frame) {
	var text bytes.Buffer
	err := d.pages.execute(&text, a, f)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	if err != nil {
		d.Logger.Error("page not made", "page", a.page, "error", err)
		a.status, a.secret = http.StatusInternalServerError, false
		text.Reset()
		text.WriteString("<!doctype html><title>purser</title><p>Something went wrong here. Its log has more.")
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	var zipped []byte
	if !a.secret && text.Len() >= minZip && acceptsGzip(r) {
		zipped, _ = zip(text.Bytes(), gzip.DefaultCompression) // without zipped, plain text is sent
	}
	send(w, r, a.status, text.Bytes(), zipped)
}

// pages holds the parsed templates by file.
type pages map[string]*template.Template

func loadPages(a assets) (pages, error) {
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	base, err := template.New("").Funcs(template.FuncMap{"asset": a.path}).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	all := pages{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := base.Clone()
		if err == nil {
			_, err = t.ParseFS(templateFiles, "templates/"+e.Name())
		}
		if err != nil {
			return nil, fmt.Errorf("dashboard: %w", err)
		}
		all[name] = t
	}
	return all, nil
}

// path returns the URL of an asset. A template that names an unknown one fails.
func (a assets) path(name string) (string, error) {
	p, ok := a.paths[name]
	if !ok {
		return "", fmt.Errorf("no asset %q", name)
	}
	return p, nil
}

func (p pages) execute(b *bytes.Buffer, a answer, f frame) error {
	t, ok := p[a.page]
	switch {
	case !ok:
		return fmt.Errorf("no page %q", a.page)
	case a.part != "":
		return t.ExecuteTemplate(b, a.part, f.Body)
	case f.Nav == nil:
		return t.ExecuteTemplate(b, "alone", f)
	}
	return t.ExecuteTemplate(b, "page", f)
}
