package session

import (
	"html/template"
	"net/http"
)

// Notice holds the text of a page that says one thing.
type Notice struct {
	Title string // heading of a few words
	Text  string // a sentence or two
	// Detail is for the operator, such as the provider's error code. It may be "". It may come from
	// outside, so pages show it as text.
	Detail string
	// Action is the text of a link to ActionURL, the next step. Both may be "". ActionURL is a path
	// on this site, or the public URL.
	Action, ActionURL string
}

// Setup holds the contents of the page about setting up sign-in.
type Setup struct {
	// RedirectURL must be registered with the provider. When the visitor's address cannot be one,
	// it has https://purser.example.com as public URL, and Placeholder is true.
	RedirectURL string
	Placeholder bool
	// Variables lists the variables to set, in the order of explanation.
	Variables []Variable
}

// Variable explains a variable of the environment.
type Variable struct {
	Name, Meaning, Example string
	Optional               bool
}

// Pages shows notices in the dashboard's layout. Security headers and Cache-Control are set before
// it is called.
type Pages interface {
	// Render writes a page with a status.
	Render(w http.ResponseWriter, r *http.Request, status int, n Notice)
	// Setup writes the page about setting up sign-in, with status 200.
	Setup(w http.ResponseWriter, r *http.Request, s Setup)
}

// plain shows pages without style, for a Gate without Pages.
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
	_ = plainNotice.Execute(w, n) // ignore a client that has left
}

func (plain) Setup(w http.ResponseWriter, _ *http.Request, s Setup) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = plainSetup.Execute(w, s)
}
