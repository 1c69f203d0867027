package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/purserpay/purser/internal/peer"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

// Accounts keeps accounts and sessions for a Gate; internal/books implements it.
type Accounts interface {
	// SignIn finds or makes the account of an identity. first is true for a new one.
	SignIn(ctx context.Context, who pay.Identity) (a pay.Account, first bool, err error)
	// Account finds an account. Without one it fails with pay.ErrAccountNotFound.
	Account(ctx context.Context, id string) (pay.Account, error)
	// EndSessions ends all sessions of an account.
	EndSessions(ctx context.Context, accountID string) (pay.Account, error)

	PutSession(ctx context.Context, s pay.Session) error
	Session(ctx context.Context, id string) (pay.Session, error)
	DeleteSession(ctx context.Context, id string) error
}

// Options configures a Gate. Accounts is required. Without an Issuer there is no sign-in, and the
// dashboard shows a page about setting it up.
type Options struct {
	Accounts Accounts

	// Issuer is the provider's identifier, and the URL of its discovery document: https, or http on
	// loopback.
	Issuer string
	// ClientID is purser's id at the provider. Required with an Issuer.
	ClientID string
	// ClientSecret is purser's secret at the provider. Empty for a public client.
	ClientSecret string
	// Allow lists the domains, addresses and groups that may sign in, as in "@example.com,
	// alice@example.org, group:payments". Empty: every identity of the provider.
	Allow string

	// PublicURL is purser's address for people, without a path. If it is set, the dashboard has no
	// other address. Default: the Host of the request, on loopback only.
	PublicURL string
	// LoopbackOnly reports that only programs on this machine can connect. The Host of requests is
	// then checked even without a PublicURL (DNS rebinding).
	LoopbackOnly bool

	Clock  pay.Clock // default: time.Now
	Logger *slog.Logger
	// Client calls the provider. Its answers are bounded and its redirects checked in any case.
	// Default: one that ignores the proxy variables of the environment, which may name purser
	// itself.
	Client *http.Client
	// Peer returns the network that a request came from, for bounds per client. Default: that of
	// Request.RemoteAddr.
	Peer func(*http.Request) netip.Addr
	// Rate bounds the sign-ins that one client may begin in a minute, and those that it may finish.
	// Default: 60. Negative: no bound.
	Rate int
	// Pages shows notices. Default: pages without style, until [Gate.ShowWith] is called.
	Pages Pages
}

// Bounds on the work that visitors without a session can cause.
const (
	defaultRate = 60
	// maxExchanges bounds the sign-ins that finish at the same time. Each needs one or two calls of
	// the provider.
	maxExchanges = 32
)

// Gate stands in front of the dashboard. It is safe for concurrent use.
type Gate struct {
	opts      Options
	log       *slog.Logger
	now       pay.Clock
	public    public
	allowed   allowed
	crossSite *http.CrossOriginProtection
	manager   *scs.SessionManager
	provider  *provider // nil without a configured provider

	starts, finishes *perclient.Limiter[netip.Addr]
	exchanges        chan struct{}
}

// New returns a Gate, or an error that names the variable at fault. It does not call the provider
// before a visitor signs in.
func New(o Options) (*Gate, error) {
	if o.Accounts == nil {
		return nil, errors.New("session: accounts are required")
	}
	if err := Check(o); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Peer == nil {
		o.Peer = func(r *http.Request) netip.Addr { return peer.Of(r.RemoteAddr) }
	}
	if o.Pages == nil {
		o.Pages = plain{}
	}
	if o.Rate == 0 {
		o.Rate = defaultRate
	}
	g := &Gate{
		opts: o, log: o.Logger, now: o.Clock, crossSite: http.NewCrossOriginProtection(), manager: newManager(o.Accounts, o.Clock),
		starts: perclient.NewLimiter[netip.Addr](o.Rate, o.Rate), finishes: perclient.NewLimiter[netip.Addr](o.Rate, o.Rate), exchanges: make(chan struct{}, maxExchanges),
	}
	var err error
	if g.public, err = parsePublic(o.PublicURL); err != nil {
		return nil, err
	}
	if g.allowed, err = parseAllowed(o.Allow); err != nil {
		return nil, err
	}
	if g.public.origin != "" {
		if err := g.crossSite.AddTrustedOrigin(g.public.origin); err != nil {
			return nil, fmt.Errorf("PURSER_PUBLIC_URL: %w", err)
		}
	}
	if o.Issuer == "" {
		return g, nil
	}
	g.provider = &provider{
		issuer: o.Issuer, id: o.ClientID, client: newClient(o.Client), now: g.now, log: g.log, turn: make(chan struct{}, 1),
	}
	return g, nil
}

// Check checks issuer, client, list and public URL as New does, and needs nothing else.
func Check(o Options) error {
	switch {
	case o.Issuer == "" && o.ClientID+o.ClientSecret+o.Allow != "":
		return errors.New("PURSER_OIDC_ISSUER is missing: the identity provider's URL")
	case o.Issuer == "":
		return nil
	case o.ClientID == "":
		return errors.New("PURSER_OIDC_CLIENT_ID is missing: what the identity provider calls purser")
	}
	if err := checkIssuer(o.Issuer); err != nil {
		return err
	}
	if _, err := parseAllowed(o.Allow); err != nil {
		return err
	}
	return noPath(o.PublicURL)
}

// Configured reports whether visitors can sign in.
func (g *Gate) Configured() bool { return g.provider != nil }

// ShowWith sets the pages for notices. Call it once, before the first request.
func (g *Gate) ShowWith(p Pages) { g.opts.Pages = p }

// Close closes connections to the provider.
func (g *Gate) Close() {
	if g.provider != nil {
		g.provider.client.CloseIdleConnections()
	}
}

// Wrap puts the gate in front of the dashboard's pages. next gets requests for /dashboard and paths
// below it. They have a visitor (see [From]), or are for assets.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asset := isAsset(r)
		g.harden(w.Header(), asset)
		defer g.recovered(w, r)
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		default:
			g.notAllowed(w, r, "GET, HEAD, POST")
			return
		}
		if asset {
			next.ServeHTTP(w, r)
			return
		}
		g.serve(w, r, next)
	})
}

// isAsset reports whether a request is for a file that needs no session.
func isAsset(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasPrefix(path.Clean(r.URL.Path)+"/", Assets) &&
		strings.HasPrefix(r.URL.Path, Assets)
}

// serve answers all requests but those for assets.
func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	at, no := g.where(r)
	if no != nil && (g.Configured() || no.status == http.StatusMisdirectedRequest) {
		g.render(w, r, no.status, no.notice)
		return
	}
	if err := g.crossSite.Check(r); err != nil {
		g.render(w, r, http.StatusForbidden, Notice{
			Title: "Not from here", Text: "Another site's page wanted to change something. Do it on this one.",
			Action: "To the dashboard", ActionURL: Home,
		})
		return
	}
	if !g.Configured() {
		g.explain(w, r, at, no == nil)
		return
	}
	switch r.URL.Path {
	case SignIn:
		g.allowMethods(w, r, "GET, HEAD, POST", func() { g.signIn(w, r, at) })
	case Callback:
		g.allowMethods(w, r, "GET", func() { g.callback(w, r, at) })
	case SignOut:
		g.allowMethods(w, r, "POST", func() { g.signOut(w, r, at, false) })
	case SignOutEverywhere:
		g.allowMethods(w, r, "POST", func() { g.signOut(w, r, at, true) })
	default:
		v, ok, err := g.session(r, at)
		switch {
		case err != nil:
			g.fail(w, r, err)
		case !ok:
			g.sendToSignIn(w, r, at)
		case !g.allowed.allows(v.standing):
			g.endSession(w, r, at, v)
		default:
			next.ServeHTTP(w, r.WithContext(withVisitor(r.Context(), v)))
		}
	}
}

// allowMethods calls serve for the allowed methods of a path.
func (g *Gate) allowMethods(w http.ResponseWriter, r *http.Request, methods string, serve func()) {
	if !slices.Contains(strings.Split(methods, ", "), r.Method) {
		g.notAllowed(w, r, methods)
		return
	}
	serve()
}

// sendToSignIn sends the visitor to sign-in, and back afterwards.
func (g *Gate) sendToSignIn(w http.ResponseWriter, r *http.Request, at place) {
	back := Home // a POST is not repeated
	switch {
	case fromScript(r):
		if page, ok := strings.CutPrefix(r.Header.Get("HX-Current-URL"), at.origin); ok {
			back = page
		}
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		back = r.URL.RequestURI()
	}
	to := To(back)
	if _, err := r.Cookie(cookieName(at.secure)); err == nil {
		// The session is over. The provider may sign its owner in again without a question. A
		// visitor who has signed out, and whose open page asks for more, does not want that.
		to = signIn(back, "out")
	}
	g.redirect(w, r, to, http.StatusUnauthorized)
}

// fromScript reports whether htmx made the request. htmx would put the target of a normal redirect
// into a part of the page.
func fromScript(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// redirect sends a browser to another page. A script gets the status script instead.
func (g *Gate) redirect(w http.ResponseWriter, r *http.Request, to string, script int) {
	if fromScript(r) {
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(script)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // to was checked by Back, or is the provider's
}

// render shows a notice.
func (g *Gate) render(w http.ResponseWriter, r *http.Request, status int, n Notice) {
	g.opts.Pages.Render(w, r, status, n)
}

func (g *Gate) notAllowed(w http.ResponseWriter, r *http.Request, methods string) {
	w.Header().Set("Allow", methods)
	g.render(w, r, http.StatusMethodNotAllowed, Notice{
		Title: "Not like this", Text: "This page is not made for that kind of request.", Action: "To the dashboard", ActionURL: Home,
	})
}

// fail answers purser's own faults. A caller that left is not one.
func (g *Gate) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errSeveral) {
		g.log.Warn("a browser sends more than one session", "path", r.URL.Path)
		g.render(w, r, http.StatusBadRequest, Notice{
			Title: "Two sessions at once",
			Text: "Your browser sends more than one session for this address, and one of them may be somebody else's: another program on " +
				"this machine can set cookies here. Delete the cookies of this address, then sign in.",
			Action: "Sign in", ActionURL: SignIn,
		})
		return
	}
	if r.Context().Err() == nil {
		g.log.Error("dashboard request failed", "path", r.URL.Path, "error", loggable(err))
	}
	w.Header().Set("Retry-After", "5")
	g.render(w, r, http.StatusServiceUnavailable, Notice{
		Title: "Not now", Text: "Purser cannot read or write its database at the moment. Nothing was lost: try again in a moment.",
		Action: "Try again", ActionURL: Home,
	})
}

// recovered answers the panic of a page.
func (g *Gate) recovered(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint,err113 // as net/http compares it
		panic(v)
	}
	what := fmt.Sprintf("%T", v) // the value may contain a secret
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	}
	g.log.Error("dashboard request failed", "path", r.URL.Path, "panic", what, "stack", string(debug.Stack()))
	g.render(w, r, http.StatusInternalServerError, Notice{
		Title: "Something is broken", Text: "That is purser's fault. Its log says more.", Action: "To the dashboard", ActionURL: Home,
	})
}

// explain shows the page about setting up sign-in.
func (g *Gate) explain(w http.ResponseWriter, r *http.Request, at place, known bool) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		g.notAllowed(w, r, "GET, HEAD")
		return
	case r.URL.Path != Home:
		http.Redirect(w, r, Home, http.StatusSeeOther)
		return
	}
	s := Setup{RedirectURL: at.origin + Callback, Variables: variables()}
	if !known {
		s.RedirectURL, s.Placeholder = "https://purser.example.com"+Callback, true
	}
	g.opts.Pages.Setup(w, r, s)
}

// variables lists the variables of sign-in.
func variables() []Variable {
	return []Variable{
		{Name: "PURSER_OIDC_ISSUER", Meaning: "The provider's issuer URL. Its discovery document is below it.", Example: "https://accounts.example.com"},
		{Name: "PURSER_OIDC_CLIENT_ID", Meaning: "What the provider calls purser.", Example: "purser"},
		{
			Name:    "PURSER_OIDC_CLIENT_SECRET",
			Meaning: "The secret that goes with it, or PURSER_OIDC_CLIENT_SECRET_FILE, a file that it is in. Public clients have none.", Optional: true,
		},
		{
			Name:    "PURSER_OIDC_ALLOW",
			Meaning: "Who may sign in: domains, addresses and groups. Without it, everybody whom the provider signs in.",
			Example: "@example.com, alice@example.org, group:payments", Optional: true,
		},
		{
			Name:    "PURSER_PUBLIC_URL",
			Meaning: "The address that people reach purser by, with https. Not needed on the machine that purser runs on.",
			Example: "https://purser.example.com", Optional: true,
		},
	}
}
