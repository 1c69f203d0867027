package session

import (
	"html/template"
	"net/http"
)

// Notice is a page that says one thing.
type Notice struct {
	Title string // a few words, for the heading
	Text  string // a sentence or two
	// Detail is something to tell whoever runs purser, such as the provider's error code; may be empty. It may come
	// from outside, so it is shown as text.
	Detail string
	// Action is the text of a link to ActionURL, what to do next; both may be empty. ActionURL is a path on this site,
	// or the public URL.
	Action, ActionURL string
}

// Setup is what the page says that explains how to set up sign-in.
type Setup struct {
	// RedirectURL is what has to be registered with the provider. Where the visitor's address cannot be one, it has
	// https://purser.example.com in the place of the public URL, and Placeholder is true.
	RedirectURL string
	Placeholder bool
	// Variables are the environment's, in the order in which they are explained.
	Variables []Variable
}

// Variable is one of the environment, with what it is for and an example.
type Variable struct {
	Name, Meaning, Example string
	Optional               bool
}

// Pages shows what sign-in has to say in the dashboard's own clothes. Security headers and Cache-Control are set before
// it is called.
type Pages interface {
	// Render writes a page with a status.
	Render(w http.ResponseWriter, r *http.Request, status int, n Notice)
	// Setup writes the page that explains how to set up sign-in, with status 200.
	Setup(w http.ResponseWriter, r *http.Request, s Setup)
}

// plain are pages without clothes, for a Gate that was given none.
type plain struct{}

var plainNotice = template.Must(template.New("notice").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} – purser</title></head>
<body><main><h1>{{.Title}}</h1><p>{{.Text}}</p>
{{with .Detail}}<p><code>{{.}}</code></p>{{end}}
{{if .Action}}<p><a href="{{.ActionURL}}">{{.Action}}</a></p>{{end}}
</main></body></html>
`))

var plainSetup = template.Must(template.New("setup").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Set up sign-in – purser</title></head>
<body><main><h1>Set up sign-in</h1>
<p>People sign in to this dashboard through an identity provider that speaks OpenID Connect. None is configured yet.
Register purser with yours as a web application (authorization code flow), with this redirect URL:</p>
<p><code>{{.RedirectURL}}</code></p>
{{if .Placeholder}}<p>Put the address in its place that people reach purser by.</p>{{end}}
<p>Then start purser with these variables:</p>
<dl>{{range .Variables}}<dt><code>{{.Name}}</code>{{if .Optional}} (optional){{end}}</dt>
<dd>{{.Meaning}}{{with .Example}} <code>{{.}}</code>{{end}}</dd>
{{end}}</dl></main></body></html>
`))

func (plain) Render(w http.ResponseWriter, _ *http.Request, status int, n Notice) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = plainNotice.Execute(w, n) // the client may be gone
}

func (plain) Setup(w http.ResponseWriter, _ *http.Request, s Setup) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = plainSetup.Execute(w, s)
}
