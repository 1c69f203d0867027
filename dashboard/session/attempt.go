package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// attemptTime bounds the time for signing in at the provider.
	attemptTime = 10 * time.Minute
	// maxAttempts bounds a browser's attempts in progress, one per tab. A new one removes the
	// oldest.
	maxAttempts = 4
	// attemptCookies begins the names of the attempts' cookies. Each attempt has its own cookie, so
	// that two tabs can sign in at once.
	attemptCookies = "purser-in-"
)

// attempt is a sign-in in progress. Only a cookie of the browser keeps it. Visitors without a
// session must not fill the store, and a reload or another node must not end an attempt.
//
// The cookie is neither signed nor encrypted. A browser can begin any number of attempts, so
// forging one gains nothing. An attempt is safe as long as no other browser has it.
type attempt struct {
	State    string    `json:"s"` // 32 random bytes, as the next two
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // for PKCE (RFC 7636)
	Return   string    `json:"r"`
	Started  time.Time `json:"t"`
	Again    bool      `json:"a,omitempty"` // a visitor with a session signs in again
}

func randomText() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (at place) attemptCookie(state string) string {
	sum := sha256.Sum256([]byte(state))
	return at.cookie(attemptCookies) + hex.EncodeToString(sum[:8])
}

// keepAttempt stores an attempt in the browser, and removes attempts that are late or too many.
func (g *Gate) keepAttempt(w http.ResponseWriter, r *http.Request, at place, a attempt) {
	type kept struct {
		name    string
		started time.Time
	}
	var others []kept
	for _, c := range r.Cookies() {
		if !strings.HasPrefix(c.Name, at.cookie(attemptCookies)) {
			continue
		}
		if other, ok := readAttempt(c.Value); ok && !g.late(other) {
			others = append(others, kept{c.Name, other.Started})
		} else {
			setCookie(w, at, c.Name, "", 0)
		}
	}
	slices.SortFunc(others, func(a, b kept) int { return b.started.Compare(a.started) })
	for _, o := range others[min(maxAttempts-1, len(others)):] {
		setCookie(w, at, o.name, "", 0)
	}
	text, _ := json.Marshal(a) // strings and a time only
	setCookie(w, at, at.attemptCookie(a.State), base64.RawURLEncoding.EncodeToString(text), attemptTime)
}

// takeAttempt returns the attempt of a callback, and removes it from the browser: each attempt is
// answered once.
func (g *Gate) takeAttempt(w http.ResponseWriter, r *http.Request, at place, state string) (attempt, bool) {
	name := at.attemptCookie(state)
	c, err := r.Cookie(name)
	if err != nil {
		return attempt{}, false
	}
	setCookie(w, at, name, "", 0)
	a, ok := readAttempt(c.Value)
	if !ok || subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) != 1 || g.late(a) {
		return attempt{}, false
	}
	a.Return = Back(a.Return)
	return a, true
}

func readAttempt(value string) (a attempt, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || json.Unmarshal(text, &a) != nil {
		return attempt{}, false
	}
	return a, len(a.State) == tokenLength && a.Nonce != "" && a.Verifier != ""
}

// late reports whether an attempt took too long, or began in the future.
func (g *Gate) late(a attempt) bool {
	age := g.now().Sub(a.Started)
	return age > attemptTime || age < -skew
}
