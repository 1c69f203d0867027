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

	"golang.org/x/oauth2"
)

const (
	// attemptTime is how long somebody has to sign in at the provider.
	attemptTime = 10 * time.Minute
	// maxAttempts is how many a browser may have going, in tabs of their own. The oldest makes room.
	maxAttempts = 4
	// attemptName begins the names of their cookies.
	attemptName = "purser-in-"
)

// attempt is a sign-in in progress. It lives in a cookie of the browser that began it and nowhere else: visitors who are
// not signed in must not be able to fill the store, and a reload or another node must not end it.
//
// It is neither signed nor encrypted. All of it was made for this one browser, which could begin any number of attempts,
// so that there is nothing to gain from another one; what counts is that nobody else's browser has it.
type attempt struct {
	State    string    `json:"s"` // 32 random bytes, as the others
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // PKCE (RFC 7636)
	Return   string    `json:"r"`
	Started  time.Time `json:"t"`
	Again    bool      `json:"a,omitempty"` // somebody signed in proves who they are once more
}

func newAttempt(back string, again bool, now time.Time) attempt {
	return attempt{
		State: randomText(), Nonce: randomText(), Verifier: oauth2.GenerateVerifier(), Return: back,
		Started: now.UTC().Truncate(time.Second), Again: again,
	}
}

func randomText() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// attemptCookie is the name of the cookie of an attempt. Each has its own, so that two tabs can sign in at a time.
func attemptCookie(secure bool, state string) string {
	sum := sha256.Sum256([]byte(state))
	return attemptPrefix(secure) + hex.EncodeToString(sum[:8])
}

func attemptPrefix(secure bool) string {
	if secure {
		return "__Host-" + attemptName
	}
	return attemptName
}

// keepAttempt has the browser keep an attempt, and forget those that are over or too many.
func (g *Gate) keepAttempt(w http.ResponseWriter, r *http.Request, at place, a attempt) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	type kept struct {
		name    string
		started time.Time
	}
	var others []kept
	for _, c := range r.Cookies() {
		if !strings.HasPrefix(c.Name, attemptPrefix(at.secure)) {
			continue
		}
		other, ok := readAttempt(c.Value)
		if !ok || g.late(other) {
			other.Started = time.Time{}
		}
		others = append(others, kept{c.Name, other.Started})
	}
	slices.SortFunc(others, func(a, b kept) int { return b.started.Compare(a.started) })
	for i, o := range others {
		if i >= maxAttempts-1 || o.started.IsZero() {
			setCookie(w, at, o.name, "", 0)
		}
	}
	setCookie(w, at, attemptCookie(at.secure, a.State), base64.RawURLEncoding.EncodeToString(text), attemptTime)
	return nil
}

// takeAttempt finds the attempt that a callback belongs to, and has the browser forget it: each is answered once.
func (g *Gate) takeAttempt(w http.ResponseWriter, r *http.Request, at place, state string) (attempt, bool) {
	name := attemptCookie(at.secure, state)
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

// late reports whether an attempt took too long, or comes from the future.
func (g *Gate) late(a attempt) bool {
	age := g.now().Sub(a.Started)
	return age > attemptTime || age < -skew
}
