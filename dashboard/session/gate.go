package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

// Accounts keeps accounts and sessions for a Gate; internal/books implements it.
type Accounts interface {
	// SignIn finds or makes the account of an identity, with an organization of its own. first is true
	// for a new one.
	SignIn(ctx context.Context, who pay.Identity) (a pay.Account, first bool, err error)
	// SignInShared does the same for a person without an organization of their own. It makes the
	// organization that the person shares, if it is not "" and not there yet.
	SignInShared(ctx context.Context, who pay.Identity, organizationID string) (a pay.Account, first bool, err error)
	// Account finds an account. Without one it fails with pay.ErrAccountNotFound.
	Account(ctx context.Context, id string) (pay.Account, error)
	// EndSessions ends all sessions of an account.
	EndSessions(ctx context.Context, accountID string) (pay.Account, error)

	// EndOperatorSessions begins another epoch of operators. Sessions of earlier ones are over.
	EndOperatorSessions(ctx context.Context) error
	OperatorEpoch(ctx context.Context) (string, error)

	PutSession(ctx context.Context, s pay.Session) error
	Session(ctx context.Context, id string) (pay.Session, error)
	DeleteSession(ctx context.Context, id string) error
}

// Options configures a Gate. Accounts, Logger and Peer are required. Without an Issuer only links
// sign in, and the dashboard shows other visitors a page about both.
type Options struct {
	Accounts Accounts

	// Issuer is the provider's identifier, and the URL of its discovery document: https, or http on
	// loopback.
	Issuer string
	// ClientID is purser's id at the provider. Required with an Issuer.
	ClientID string
	// ClientSecret is purser's secret at the provider. Empty for a public client.
	ClientSecret string
	// People says who of the provider's identities may sign in, and as what.
	People PeopleOptions

	// Links sign in as the operator. Default: there are none.
	Links *Links

	// PublicURL is purser's address for people, without a path. If it is set, the dashboard has no
	// other address. Default: the Host of the request, on loopback only.
	PublicURL string
	// LoopbackOnly reports that only programs on this machine can connect. The Host of requests is
	// then checked even without a PublicURL (DNS rebinding).
	LoopbackOnly bool

	Clock  pay.Clock // default: time.Now
	Logger *slog.Logger
	// Peer returns the network that a request came from, for bounds per client.
	Peer func(*http.Request) netip.Addr
	// Timeout bounds one call of the provider. Default: 10 s.
	Timeout time.Duration
}

// Bounds on the work that visitors without a session can cause.
const (
	// signIns bounds the sign-ins that one client may begin in a minute, and those that it may finish.
	signIns = 60
	// maxExchanges bounds the sign-ins that finish at the same time. Each needs one or two calls of
	// the provider.
	maxExchanges = 32
)

// Gate stands in front of the dashboard. It is safe for concurrent use.
type Gate struct {
	opts      Options
	log       *slog.Logger
	now       pay.Clock
	public    place
	people    people
	crossSite *http.CrossOriginProtection
	manager   *scs.SessionManager
	provider  *provider // nil without a configured provider
	pages     Pages

	starts, finishes *perclient.Limiter[netip.Addr]
	wrongs           *perclient.Limiter[netip.Addr] // of links
	exchanges        chan struct{}
}

// New returns a Gate, or an error that names the variable at fault. It does not call the provider
// before a visitor signs in.
func New(o Options) (*Gate, error) {
	if err := Check(o); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Links == nil {
		o.Links = NewLinks(o.Clock)
	}
	g := &Gate{
		opts: o, log: o.Logger, now: o.Clock, crossSite: http.NewCrossOriginProtection(), manager: newManager(o.Accounts),
		starts: perclient.NewLimiter[netip.Addr](signIns, signIns), finishes: perclient.NewLimiter[netip.Addr](signIns, signIns),
		wrongs: perclient.NewLimiter[netip.Addr](wrongLinks, wrongLinks), exchanges: make(chan struct{}, maxExchanges),
	}
	var err error
	if g.public, err = parsePublic(o.PublicURL); err != nil {
		return nil, err
	}
	if g.people, err = parsePeople(o.People); err != nil {
		return nil, err
	}
	if g.public.origin != "" {
		if err := g.crossSite.AddTrustedOrigin(g.public.origin); err != nil {
			return nil, fmt.Errorf("PURSER_PUBLIC_URL: %w", err)
		}
	}
	if o.Issuer != "" {
		g.provider = &provider{
			issuer: o.Issuer, id: o.ClientID, client: newClient(cmp.Or(o.Timeout, providerTime)), now: g.now, log: g.log,
		}
	}
	return g, nil
}

// Check checks issuer, client, list and public URL as New does, and needs nothing else.
func Check(o Options) error {
	switch {
	case o.Issuer == "" && (o.ClientID+o.ClientSecret != "" || o.People != PeopleOptions{}):
		return errors.New("PURSER_OIDC_ISSUER is missing: the identity provider's URL")
	case o.Issuer == "":
		return nil
	case o.ClientID == "":
		return errors.New("PURSER_OIDC_CLIENT_ID is missing: what the identity provider calls purser")
	}
	if err := checkIssuer(o.Issuer); err != nil {
		return err
	}
	if _, err := parsePeople(o.People); err != nil {
		return err
	}
	if u, err := url.Parse(o.PublicURL); err == nil && strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return errors.New("PURSER_PUBLIC_URL: the dashboard is at /dashboard of a host of its own: leave out what follows the host")
	}
	return nil
}

// Close closes connections to the provider.
func (g *Gate) Close() {
	if g.provider != nil {
		g.provider.client.CloseIdleConnections()
	}
}

// Wrap puts the gate in front of the dashboard's pages, and shows its own notices with pages. next
// gets requests for /dashboard and paths below it. They have a visitor (see [From]), or are for
// assets or for links of approvals. You must call Wrap before the first request.
func (g *Gate) Wrap(next http.Handler, pages Pages) http.Handler {
	g.pages = pages
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asset := isAsset(r)
		g.harden(w.Header(), asset)
		defer g.recovered(w, r)
		if asset {
			next.ServeHTTP(w, r)
		} else if err := g.serve(w, r, next); err != nil {
			g.fail(w, r, err)
		}
	})
}

// isAsset reports whether a request is for a file that needs no session.
func isAsset(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasPrefix(path.Clean(r.URL.Path)+"/", Assets) &&
		strings.HasPrefix(r.URL.Path, Assets)
}

// serve answers all requests but those for assets.
func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return notAllowed(w, "GET, HEAD, POST")
	}
	at, no := g.where(r)
	if no != nil && (g.provider != nil || no.status == http.StatusMisdirectedRequest || r.URL.Path == Link || strings.HasPrefix(r.URL.Path, ApprovalLink)) {
		return no
	}
	if g.crossSite.Check(r) != nil {
		return &refusal{status: http.StatusForbidden, Notice: Notice{
			Title: "Not from here", Text: "Another site's page wanted to change something. Do it on this one.",
			Action: "To the dashboard", ActionURL: Home,
		}}
	}
	if no != nil {
		return g.explain(w, r, at, false)
	}
	if own, ok := map[string]struct {
		methods string
		serve   func(http.ResponseWriter, *http.Request, place) error
	}{
		SignIn:            {"GET, HEAD, POST", g.signIn},
		Callback:          {"GET", g.callback},
		Link:              {"GET, HEAD, POST", g.link},
		SignOut:           {"POST", g.signOut},
		SignOutEverywhere: {"POST", g.signOut},
	}[r.URL.Path]; ok {
		if !slices.Contains(strings.Split(own.methods, ", "), r.Method) {
			return notAllowed(w, own.methods)
		}
		return own.serve(w, r, at)
	}
	if strings.HasPrefix(r.URL.Path, ApprovalLink) {
		next.ServeHTTP(w, r)
		return nil
	}
	v, ok, err := g.session(r, at)
	switch {
	case err != nil:
		return err
	case !ok && g.provider == nil:
		return g.explain(w, r, at, true)
	case !ok:
		sendToSignIn(w, r, at)
	case !g.admits(v):
		return g.endSession(w, r, at, v)
	default:
		next.ServeHTTP(w, r.WithContext(WithVisitor(r.Context(), v)))
	}
	return nil
}

// sendToSignIn sends the visitor to sign-in, and back afterwards.
func sendToSignIn(w http.ResponseWriter, r *http.Request, at place) {
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
	if _, err := r.Cookie(at.cookie(sessionCookie)); err == nil {
		// The session is over. The provider may sign its owner in again without a question. A
		// visitor who has signed out, and whose open page asks for more, does not want that.
		to = signIn(back, "out")
	}
	redirect(w, r, to, http.StatusUnauthorized)
}

// fromScript reports whether htmx made the request. htmx would put the target of a normal redirect
// into a part of the page.
func fromScript(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// redirect sends a browser to another page. A script gets the status script instead.
func redirect(w http.ResponseWriter, r *http.Request, to string, script int) {
	if fromScript(r) {
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(script)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // to was checked by Back, or is the provider's
}

func notAllowed(w http.ResponseWriter, methods string) error {
	w.Header().Set("Allow", methods)
	return &refusal{status: http.StatusMethodNotAllowed, Notice: Notice{
		Title: "Not like this", Text: "This page is not made for that kind of request.", Action: "To the dashboard", ActionURL: Home,
	}}
}

// fail shows a refusal. Other errors are purser's own faults, unless the caller left.
func (g *Gate) fail(w http.ResponseWriter, r *http.Request, err error) {
	no, ok := errors.AsType[*refusal](err)
	if !ok {
		if r.Context().Err() == nil {
			g.log.Error("dashboard request failed", "path", r.URL.Path, "error", loggable(err))
		}
		no = &refusal{status: http.StatusServiceUnavailable, retry: 5 * time.Second, Notice: Notice{
			Title: "Not now", Text: "Purser cannot read or write its database at the moment. Nothing was lost: try again in a moment.",
			Action: "Try again", ActionURL: Home,
		}}
	}
	if no.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((no.retry+time.Second-1)/time.Second)))
	}
	g.pages.Render(w, r, no.status, no.Notice)
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
	g.pages.Render(w, r, http.StatusInternalServerError, Notice{
		Title: "Something is broken", Text: "That is purser's fault. Its log says more.", Action: "To the dashboard", ActionURL: Home,
	})
}

// explain shows the page about setting up sign-in.
func (g *Gate) explain(w http.ResponseWriter, r *http.Request, at place, known bool) error {
	switch {
	case r.URL.Path != Home || fromScript(r):
		if known && r.Method == http.MethodGet && !fromScript(r) {
			keepBack(w, at, r.URL.RequestURI())
		}
		redirect(w, r, Home, http.StatusUnauthorized)
		return nil
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return notAllowed(w, "GET, HEAD")
	}
	s := Setup{RedirectURL: at.origin + Callback, Variables: variables}
	if !known {
		s.RedirectURL, s.Placeholder = "https://purser.example.com"+Callback, true
	}
	g.pages.Setup(w, r, s)
	return nil
}

// variables lists the variables of sign-in.
var variables = []Variable{
	{Name: "PURSER_OIDC_ISSUER", Meaning: "The provider's issuer URL. Its discovery document is below it.", Example: "https://accounts.example.com"},
	{Name: "PURSER_OIDC_CLIENT_ID", Meaning: "What the provider calls purser.", Example: "purser"},
	{
		Name:    "PURSER_OIDC_CLIENT_SECRET",
		Meaning: "The secret that goes with it, or PURSER_OIDC_CLIENT_SECRET_FILE, a file that it is in. Public clients have none.", Optional: true,
	},
	{
		Name:    "PURSER_OIDC_ALLOW",
		Meaning: "Who may sign in, with an organization of their own: domains, addresses and groups. Without any list, everybody whom the provider signs in.",
		Example: "@example.com, alice@example.org, group:payments", Optional: true,
	},
	{
		Name:    "PURSER_OIDC_OPERATORS",
		Meaning: "Who sees and changes everything, as with a link. PURSER_OIDC_APPROVERS see everything and approve payments; PURSER_OIDC_VIEWERS see everything.",
		Example: "alice@example.org, group:platform", Optional: true,
	},
	{
		Name:    "PURSER_PUBLIC_URL",
		Meaning: "The address that people reach purser by, with https. Not needed on the machine that purser runs on.",
		Example: "https://purser.example.com", Optional: true,
	},
}
