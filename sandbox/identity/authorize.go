package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// style is the CSS of the page with the button. The policy allows it by its hash, and nothing else.
const style = `:root{color-scheme:light dark;font:1.1rem/1.5 system-ui,sans-serif}
body{max-width:34rem;margin:12vh auto;padding:0 1.5rem}
button{font:inherit;padding:.7rem 1.2rem;border:2px solid;border-radius:.5rem;cursor:pointer;background:ButtonFace;color:ButtonText}
button:focus-visible{outline:3px solid Highlight;outline-offset:3px}
.main{font-weight:600;margin-right:.6rem}`

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in – purser sandbox</title><style>{{.Style}}</style></head>
<body><main><h1>Sandbox sign-in</h1>
<p>This stands in for your identity provider. It knows one user, and no password.</p>
<form method="post" action="/authorize?{{.Query}}">
<button class="main" name="answer" value="yes" autofocus>Sign in as the sandbox's user</button>
<button name="answer" value="no">Cancel</button>
</form></main></body></html>
`))

// wish is an authorization request that can be granted.
type wish struct {
	redirect *url.URL
	state    string
	grant    grant
}

// read checks an authorization request (OpenID Connect Core §3.1.2.1). It answers a bad request.
// Without a known client and redirect URL, the browser is not redirected.
func (p *Provider) read(w http.ResponseWriter, r *http.Request) (asked wish, ok bool) {
	q := r.URL.Query()
	redirect, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case q.Get("client_id") != p.opts.ClientID:
		http.Error(w, "No client has this client_id.", http.StatusBadRequest)
		return wish{}, false
	case err != nil || !p.registered(q.Get("redirect_uri")):
		http.Error(w, "This redirect_uri is not registered.", http.StatusBadRequest)
		return wish{}, false
	}
	asked = wish{redirect, q.Get("state"), grant{
		redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), nonce: q.Get("nonce"), scope: q.Get("scope"), at: p.opts.Now(),
	}}
	var problem string
	switch {
	case q.Get("response_type") != "code":
		problem = "unsupported_response_type"
	case !slices.Contains(strings.Fields(asked.grant.scope), "openid"):
		problem = "invalid_scope"
	case q.Get("code_challenge_method") != "S256" || len(asked.grant.challenge) != 43, asked.state == "":
		problem = "invalid_request"
	case q.Get("prompt") == "none":
		problem = "login_required"
	default:
		return asked, true
	}
	p.reply(w, r, asked, "error", problem)
	return asked, false
}

// showButton shows the page with the button.
func (p *Provider) showButton(w http.ResponseWriter, r *http.Request) {
	if _, ok := p.read(w, r); !ok {
		return
	}
	sum := sha256.Sum256([]byte(style))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// There is no form-action: browsers apply it to the redirect after the form too, which leads to
	// the client.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
		"'; frame-ancestors 'none'; base-uri 'none'")
	_ = page.Execute(w, struct {
		Style template.CSS
		Query template.URL
	}{style, template.URL(r.URL.Query().Encode())}) //nolint:gosec // it is encoded
}

// pressButton handles a press of the button.
func (p *Provider) pressButton(w http.ResponseWriter, r *http.Request) {
	asked, ok := p.read(w, r)
	switch {
	case !ok:
	case r.PostFormValue("answer") != "yes":
		p.reply(w, r, asked, "error", "access_denied")
	default:
		code := rand.Text()
		p.codes.Add(code, asked.grant)
		p.reply(w, r, asked, "code", code)
	}
}

// reply sends the browser back to the client with a code or an error.
func (p *Provider) reply(w http.ResponseWriter, r *http.Request, asked wish, name, value string) {
	values := url.Values{name: {value}, "state": {asked.state}}
	issuer, _, faults := p.state()
	values.Set("iss", issuer) // RFC 9207
	if faults.Callback != nil {
		faults.Callback(values)
	}
	to := *asked.redirect
	to.RawQuery = values.Encode()
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}
