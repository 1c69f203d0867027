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
	maxForm  = 64 << 10         // bytes of a posted form
	minZip   = 1 << 10          // bytes from which packing is worth it
)

func systemClock() time.Time { return time.Now() }

// visit is one request of somebody who is signed in.
type visit struct {
	session.Visitor
	now time.Time
}

func (v visit) org() string { return v.Account.OrganizationID }

// answer is what a view wants to be sent: a page, a part of one, a redirect, or nothing.
type answer struct {
	status   int    // 0: 200
	page     string // name of the template
	part     string // a template of it, sent without the frame
	title    string
	nav      string // the page of the menu that this is, or belongs to
	body     any
	redirect string // where to go instead
	say      said   // what the page after the redirect says once
	// secret: the page shows a key. It is not packed, because the length of packed text tells what is in it to
	// whoever can add to it.
	secret bool
	// refresh has the page that asked for a part of itself loaded anew.
	refresh bool
	htmx    bool                              // the page has parts that load by themselves
	stream  func(w http.ResponseWriter) error // writes the answer itself
}

// view works out the answer to a request. Only page writes.
type view func(r *http.Request, v visit) (answer, error)

// page makes a handler of a view. Whatever happens, the answer is a page.
func (d *dashboard) page(serve view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := d.Visitor(r.Context())
		if !ok { // the gate lets nobody through without; pages do not take its word
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
		if err := d.turns.take(v.org(), 1, v.now); err != nil {
			return answer{}, err
		}
		if err := r.ParseForm(); err != nil {
			return answer{}, errForm
		}
	}
	return serve(r, v)
}

// logPanic tells where it happened. The value itself may hold anything, a key too, so only the runtime's own errors are
// written out.
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
			panic(http.ErrAbortHandler) // cut off, so that nobody takes it for all there is
		}
		return
	}
	if a.redirect != "" {
		d.tell(w, r, a.say)
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
		f.Message = d.told(w, r)
	}
	d.render(w, r, a, f)
}

// frame is what the layout needs beside the page's own Body.
type frame struct {
	Title     string
	Body      any
	HTMX      bool
	PlayMoney bool
	Wide      bool // of pages without a menu
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

// render makes all of a page before the first byte leaves, so that a fault in a template is a 500 and not half a page.
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
		zipped, _ = zip(text.Bytes(), gzip.DefaultCompression) // without, it is sent as it is
	}
	send(w, r, a.status, text.Bytes(), zipped)
}

// pages are the parsed templates, by file.
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

// path is the address of an asset; templates that name another one fail.
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
