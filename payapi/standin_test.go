package payapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// standIn is a facilitator over real HTTP. By default it accepts and settles every payment.
type standIn struct {
	url            string
	close          func()
	verify, settle atomic.Pointer[http.HandlerFunc]
	verified       atomic.Int64 // calls
	settled        atomic.Int64
	mu             sync.Mutex
	nonces         map[string]int // settlements of each authorization
}

func newStandIn(t *testing.T) *standIn {
	f := &standIn{nonces: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /supported", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"kinds":[{"x402Version":1,"scheme":"exact","network":"base"}]}`)
	})
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, r *http.Request) {
		f.verified.Add(1)
		if h := f.verify.Load(); h != nil {
			(*h)(w, r)
			return
		}
		fmt.Fprintf(w, `{"isValid":true,"payer":%q}`, authorizationOf(r)["from"])
	})
	mux.HandleFunc("POST /settle", func(w http.ResponseWriter, r *http.Request) {
		f.settled.Add(1)
		if h := f.settle.Load(); h != nil {
			(*h)(w, r)
			return
		}
		f.succeed(w, r)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	f.url, f.close = srv.URL, srv.Close
	return f
}

// succeed settles with a transaction that belongs to the authorization.
func (f *standIn) succeed(w http.ResponseWriter, r *http.Request) {
	auth := authorizationOf(r)
	nonce, _ := auth["nonce"].(string)
	f.mu.Lock()
	f.nonces[nonce]++
	f.mu.Unlock()
	fmt.Fprintf(w, `{"success":true,"transaction":%q,"network":"base","payer":%q}`, transactionOf(nonce), auth["from"])
}

func transactionOf(nonce string) string {
	sum := sha256.Sum256([]byte(nonce))
	return "0x" + hex.EncodeToString(sum[:])
}

func authorizationOf(r *http.Request) map[string]any {
	var body struct {
		PaymentPayload struct {
			Payload struct{ Authorization map[string]any }
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	return body.PaymentPayload.Payload.Authorization
}

// moved returns the number of settled authorizations, and whether one was settled twice.
func (f *standIn) moved() (count int, twice bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nonces {
		twice = twice || n > 1
	}
	return len(f.nonces), twice
}

func (f *standIn) onVerify(h http.HandlerFunc) { f.verify.Store(&h) }
func (f *standIn) onSettle(h http.HandlerFunc) { f.settle.Store(&h) }

// says answers with a status and a body.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// hangUp resets the connection without an answer.
func hangUp(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}
