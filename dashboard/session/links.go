package session

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
)

const (
	// LinkTime is the time for which a link works.
	LinkTime = 5 * time.Minute
	// maxLinks bounds the links that wait. A new one removes the oldest.
	maxLinks = 16
	// wrongLinks bounds the links that do not work and that one client may try in a minute. A link that
	// works is never refused, or a program on the operator's machine could keep the operator out.
	wrongLinks = 20
)

// Links makes links that sign in as the operator, once each. It is safe for concurrent use. It keeps
// them in memory, so that a restart ends them, and as hashes.
type Links struct {
	now pay.Clock

	mu    sync.Mutex
	waits []link // oldest first
	ends  int    // how often all links were ended
}

type link struct {
	hash  [sha256.Size]byte
	by    string
	until time.Time
	ends  int // of Links when it was made
}

// NewLinks returns Links without a link. The clock may be nil: time.Now.
func NewLinks(clock pay.Clock) *Links {
	if clock == nil {
		clock = time.Now
	}
	return &Links{now: clock}
}

// Make returns a new link for the operator of this name, as a path below the dashboard's URL. The secret is behind the #:
// browsers send no such part, so that no log and no proxy gets it.
func (l *Links) Make(by string) (path string, until time.Time) {
	secret := randomText()
	made := link{hash: sha256.Sum256([]byte(secret)), by: by, until: l.now().Add(LinkTime)}
	l.mu.Lock()
	defer l.mu.Unlock()
	made.ends = l.ends
	l.add(made)
	return strings.TrimPrefix(Link, "/dashboard") + "#" + secret, made.until
}

// giveBack lets a link that was taken work again, unless all links were ended since it was made.
func (l *Links) giveBack(used link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if used.ends == l.ends {
		l.add(used)
	}
}

// add needs the lock.
func (l *Links) add(made link) {
	if len(l.waits) == maxLinks {
		l.waits = l.waits[1:]
	}
	l.waits = append(l.waits, made)
}

// take returns the link with a secret, and removes it.
func (l *Links) take(secret string) (link, bool) {
	hash, now := sha256.Sum256([]byte(secret)), l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = slices.DeleteFunc(l.waits, func(w link) bool { return !now.Before(w.until) })
	i := slices.IndexFunc(l.waits, func(w link) bool { return subtle.ConstantTimeCompare(w.hash[:], hash[:]) == 1 })
	if i < 0 {
		return link{}, false
	}
	found := l.waits[i]
	l.waits = slices.Delete(l.waits, i, i+1)
	return found, true
}

// Clear removes all links.
func (l *Links) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = nil
	l.ends++
}

// link serves the page of a link. Only the POST of its button uses the link up: programs that preview
// or load links in advance make a GET.
func (g *Gate) link(w http.ResponseWriter, r *http.Request, at place) error {
	if r.Method != http.MethodPost {
		g.pages.Link(w, r)
		return nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return errLink
	}
	// Read the epoch before the link is taken: ending all sessions ends this one, too.
	epoch, err := g.opts.Accounts.OperatorEpoch(r.Context())
	if err != nil {
		return err
	}
	now := g.now()
	secret := strings.TrimSpace(r.PostForm.Get("link"))
	used, ok := g.opts.Links.take(secret[strings.LastIndex(secret, "#")+1:]) // all of the link may be typed
	if !ok {
		if wait := g.wrongs.Take(g.opts.Peer(r), 1, now); wait > 0 {
			return tooMany(wait)
		}
		g.log.Warn("a link of 'purser dashboard' does not work", "peer", g.opts.Peer(r).String())
		return errLink
	}
	if err := g.admit(w, r, at, Visitor{Role: Operator, All: true, Name: used.by, AuthTime: now, Epoch: epoch}); err != nil {
		g.opts.Links.giveBack(used) // there is no session yet
		return err
	}
	g.log.Info("signed in with a link of 'purser dashboard'", "by", Visitor{Role: Operator, Name: used.by}.Actor().String())
	http.Redirect(w, r, g.takeBack(w, r, at), http.StatusSeeOther) //nolint:gosec // takeBack returns pages of the dashboard only
	return nil
}

const (
	// backCookie keeps the page that a visitor without a link asked for. The link is opened in the same
	// browser, and leads there.
	backCookie = "purser-back"
	// backTime is the time to ask for a link, and to open it.
	backTime = 2 * LinkTime
)

// keepBack remembers a page of the dashboard until a link is opened.
func keepBack(w http.ResponseWriter, at place, back string) {
	if back = Back(back); back != Home {
		setCookie(w, at, at.cookie(backCookie), url.PathEscape(back), backTime)
	}
}

// takeBack returns the page to show after a link was opened, and forgets it. Other programs can set
// cookies for the host: the cookie names a page of the dashboard, or counts for nothing.
func (g *Gate) takeBack(w http.ResponseWriter, r *http.Request, at place) string {
	c, err := r.Cookie(at.cookie(backCookie))
	if err != nil {
		return Home
	}
	setCookie(w, at, c.Name, "", 0)
	back, err := url.PathUnescape(c.Value)
	if err != nil {
		return Home
	}
	return Back(back)
}

// errLink answers a link that was used, is late or was never made. The answers do not differ.
var errLink = &refusal{status: http.StatusGone, Notice: Notice{
	Title: "This link does not work",
	Text: "A link works once, for five minutes, and until purser restarts. Run “purser dashboard” again on the machine that purser " +
		"runs on, and open the link that it prints.",
	Action: "To the dashboard", ActionURL: Home,
}}

// errOperatorAgain answers an operator whose sign-in is not recent enough for a page.
var errOperatorAgain = &refusal{status: http.StatusForbidden, Notice: Notice{
	Title: "Sign in again",
	Text: "This needs a sign-in of the last fifteen minutes. Run “purser dashboard” on the machine that purser runs on, and open the " +
		"link that it prints in this browser. It leads back to the page that you came from.",
	Action: "Type the link", ActionURL: Link,
}}
