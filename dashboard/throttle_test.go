package dashboard_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
)

// A thief with a stolen session cannot sign in, so a key that the owner makes or reveals is not
// shown to it.
func TestAnOldSessionGetsNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	thief := *ada
	ada.session, ada.auth = "new", w.clock.now()
	thief.session, thief.auth = "old", w.clock.now().Add(-time.Hour)
	revealed := "/dashboard/keys/" + ada.key.ID
	ada.post(revealed + "/reveal").to(revealed)
	made := ada.post("/dashboard/keys", "label", "x").is(http.StatusSeeOther).header.Get("Location")
	for _, path := range []string{revealed, made} {
		if shownKey.MatchString(thief.get(path).is(200).body) {
			t.Errorf("%s showed the key to another session", path)
		}
		if !shownKey.MatchString(ada.get(path).is(200).body) {
			t.Errorf("%s does not show the key to the session that asked for it", path)
		}
	}
}

func TestGuessingKeysIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	guess := func() seen { return ada.post("/dashboard/keys/link", "key", "guess-0001") }
	for range 10 {
		guess().is(http.StatusUnprocessableEntity)
	}
	if wait := guess().is(http.StatusTooManyRequests, "Too many requests").header.Get("Retry-After"); wait == "" || wait == "0" {
		t.Errorf("Retry-After: %q", wait)
	}
	eve.post("/dashboard/keys/link", "key", "guess-0001").is(http.StatusUnprocessableEntity) // another organization's turns
	ada.get("/dashboard/keys").is(200)
	w.clock.advance(time.Minute)
	guess().is(http.StatusUnprocessableEntity)
}

// A deleted wallet does not count, but its row stays for ever. So changes are bounded.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	ada := newWorld(t).person("ada")
	for range 60 {
		ada.post("/dashboard/keys/" + ada.key.ID + "/pause").is(http.StatusSeeOther)
	}
	ada.post("/dashboard/keys/" + ada.key.ID + "/pause").is(http.StatusTooManyRequests)
}

// slowReader is a gate that delays reading the answers to requests with the header Test-Slow, until
// it is released.
type slowReader struct {
	headerGate
	writing chan struct{}
	read    chan struct{}
}

func (g slowReader) Wrap(next http.Handler, pages session.Pages) http.Handler {
	return g.headerGate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Test-Slow") != "" {
			w = slowWriter{w, g}
		}
		next.ServeHTTP(w, r)
	}), pages)
}

type slowWriter struct {
	http.ResponseWriter
	gate slowReader
}

func (w slowWriter) Write(p []byte) (int, error) {
	w.gate.writing <- struct{}{}
	<-w.gate.read
	return w.ResponseWriter.Write(p)
}

// An export reads all events, for as long as its client takes. So exports are bounded.
func TestExportsAtOnce(t *testing.T) {
	t.Parallel()
	gate := slowReader{writing: make(chan struct{}, 100), read: make(chan struct{})}
	read := sync.OnceFunc(func() { close(gate.read) })
	defer read() // otherwise the server could not be closed after a failure
	w := newWorld(t, func(s *setup) { s.pages.Gate = gate })
	ada, eve := w.person("ada"), w.person("eve")
	w.wallet(ada.key, 1_000_000)
	w.buy(ada.key, "https://api.example.com/", "", "1000")
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() { ada.get("/dashboard/spend.csv", "Test-Slow", "1").is(200, "api.example.com") })
		<-gate.writing
	}
	ada.get("/dashboard/spend.csv").is(http.StatusTooManyRequests, "Too many requests")
	eve.get("/dashboard/spend.csv").is(200)
	read()
	readers.Wait()
	for range 3 { // all slots come back, even those of exports that wrote nothing
		ada.get("/dashboard/spend.csv?key=00000000-0000-7000-8000-000000000000").is(http.StatusNotFound)
		ada.do(http.MethodHead, "/dashboard/spend.csv", nil).is(200)
		ada.get("/dashboard/spend.csv").is(200)
	}
}
