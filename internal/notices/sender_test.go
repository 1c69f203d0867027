package notices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
)

var noon = time.Date(2026, time.November, 23, 12, 0, 0, 0, time.UTC)

const testSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// receiver is a web server that takes notices.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
	status func(n int) int // of the nth request; nil: 200
	got    chan struct{}
}

func receive(t *testing.T, status func(n int) int) *receiver {
	t.Helper()
	r := &receiver{status: status, got: make(chan struct{}, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.bodies, r.heads = append(r.bodies, string(body)), append(r.heads, req.Header.Clone())
		n := len(r.bodies)
		r.mu.Unlock()
		defer func() { r.got <- struct{}{} }()
		if r.status != nil {
			w.WriteHeader(r.status(n))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func always(status int) func(int) int { return func(int) int { return status } }

func (r *receiver) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.bodies...)
}

// world is a sender with a clock that the test sets.
type world struct {
	*testing.T
	*Sender
	store *memory.Store
	mu    sync.Mutex
	at    time.Time
	logs  *strings.Builder
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

func loopbackAllowed() guard.Rules {
	return guard.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func newWorld(t *testing.T, change func(*Options), urls ...string) *world {
	t.Helper()
	w := &world{T: t, at: noon, logs: &strings.Builder{}}
	w.store = memory.New(memory.Options{Clock: w.clock})
	everything, _ := ParseKinds([]string{"all"})
	signers, err := ParseSecrets([]string{testSecret})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Store: w.store, Guard: loopbackAllowed(), Clock: w.clock, Wants: everything, Signers: signers, PublicURL: "https://purser.example.com",
		Jitter: func() float64 { return 0.5 }, Logger: slog.New(slog.NewTextHandler(w.logs, nil)),
	}
	for _, u := range urls {
		d, err := ParseWebhook(u)
		if err != nil {
			t.Fatal(err)
		}
		o.Destinations = append(o.Destinations, d)
	}
	if change != nil {
		change(&o)
	}
	w.Sender = New(o)
	if err := w.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) add(list ...pay.Notice) {
	w.Helper()
	for i := range list {
		if list[i].At.IsZero() {
			list[i].At = w.clock()
		}
	}
	if err := w.store.AddNotices(w.Context(), list); err != nil {
		w.Fatal(err)
	}
}

// steps makes steps of a destination until there is nothing more to try now.
func (w *world) steps(i int) {
	w.Helper()
	for more := true; more; {
		var err error
		if more, err = w.step(w.Context(), w.queues[i]); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) state(i int) State {
	w.Helper()
	all, err := w.States(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return all[i]
}

func paused() pay.Notice {
	return pay.Notice{Kind: pay.NoticePaused, Title: "purser is paused", Text: "Payments stop."}
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	w := newWorld(t, nil, r.URL+"/secret-path")
	w.add(pay.Notice{
		Kind: pay.NoticeDisputed, KeyID: "k1", PaymentID: "p1", Host: "api.example.com", Title: "A payment is disputed", Text: "Look at it.",
		Figures: map[string]string{"amount": "1.00 USDC"},
	})
	w.steps(0)
	w.steps(0)
	if len(r.taken()) != 1 {
		t.Fatalf("sent %d times", len(r.taken()))
	}
	var got Payload
	if err := json.Unmarshal([]byte(r.taken()[0]), &got); err != nil {
		t.Fatal(err)
	}
	n, _ := w.store.Notices(t.Context(), pay.NoticeQuery{Limit: 1})
	want := Payload{Type: pay.NoticeDisputed, Timestamp: noon, Version: 1, Data: PayloadData{
		ID: n[0].ID, Number: 1, Title: "A payment is disputed", Text: "Look at it.", Key: "k1", Payment: "p1", Host: "api.example.com",
		Figures: map[string]string{"amount": "1.00 USDC"}, Page: "https://purser.example.com/dashboard/payments/p1",
	}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	head := r.heads[0]
	if head.Get("webhook-id") != n[0].ID {
		t.Errorf("webhook-id is %q", head.Get("webhook-id"))
	}
	verifier, err := standardwebhooks.NewWebhook(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifyIgnoringTimestamp([]byte(r.taken()[0]), head); err != nil {
		t.Error(err)
	}
	if err := verifier.VerifyIgnoringTimestamp([]byte(r.taken()[0]+" "), head); err == nil {
		t.Error("another body verifies")
	}
	if s := w.state(0); s.Cursor != 1 || s.Waiting != 0 || s.Delivered == nil || s.Failing() {
		t.Errorf("state %+v", s)
	}
}

// A receiver that fails gets the notice again, under the same id, later and later.
func TestRetries(t *testing.T) {
	t.Parallel()
	r := receive(t, func(n int) int {
		if n <= 3 {
			return 500
		}
		return 200
	})
	w := newWorld(t, nil, r.URL)
	w.add(paused(), pay.Notice{Kind: pay.NoticeResumed})
	for i, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		w.steps(0)
		if n := len(r.taken()); n != i+1 {
			t.Fatalf("%d tries, want %d", n, i+1)
		}
		w.pass(wait - time.Second)
		w.steps(0)
		if n := len(r.taken()); n != i+1 {
			t.Fatalf("tried again before %s", wait)
		}
		w.pass(time.Second)
	}
	if s := w.state(0); s.Tries != 3 || !s.Failing() || s.Waiting != 2 || s.Error != "500 Internal Server Error" {
		t.Errorf("state %+v", s)
	}
	w.steps(0)
	if n := len(r.taken()); n != 5 {
		t.Fatalf("%d tries in the end", n)
	}
	for i := range 4 {
		if r.heads[i].Get("webhook-id") != r.heads[0].Get("webhook-id") {
			t.Error("a repeat has another id")
		}
	}
	if s := w.state(0); s.Failing() || s.Waiting != 0 {
		t.Errorf("state %+v", s)
	}
}

func TestGivingUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		tries  int // until it is given up; 0: it is not
	}{
		"not found": {404, 5}, "unauthorized": {401, 5}, "redirect": {302, 5}, "overloaded": {429, 0}, "timeout": {408, 0}, "down": {503, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, always(c.status))
			w := newWorld(t, nil, r.URL)
			w.add(paused())
			for range 12 {
				w.steps(0)
				w.pass(20 * time.Minute)
			}
			s := w.state(0)
			if c.tries > 0 && (len(r.taken()) != c.tries || s.GivenUp != 1 || s.Waiting != 0) {
				t.Errorf("%d tries, state %+v", len(r.taken()), s)
			}
			if c.tries > 0 {
				return
			}
			if s.GivenUp != 0 || s.Waiting != 1 {
				t.Errorf("state %+v", s)
			}
			for range 8 {
				w.pass(7 * time.Hour)
				w.steps(0)
			}
			if s := w.state(0); s.GivenUp != 1 || s.Waiting != 0 {
				t.Errorf("after two days: %+v", s)
			}
			if !strings.Contains(w.logs.String(), "notice given up") {
				t.Error("not logged")
			}
		})
	}
}

// 410 ends the deliveries until a test is taken.
func TestGone(t *testing.T) {
	t.Parallel()
	r := receive(t, func(n int) int {
		if n == 1 {
			return 410
		}
		return 200
	})
	w := newWorld(t, nil, r.URL)
	w.add(paused())
	for range 5 {
		w.steps(0)
		w.pass(24 * time.Hour)
	}
	if s := w.state(0); len(r.taken()) != 1 || !s.Stopped || s.Waiting != 1 {
		t.Fatalf("%d tries, state %+v", len(r.taken()), s)
	}
	tested, err := w.Test(t.Context(), w.queues[0].Name)
	if err != nil || len(tested) != 1 || !tested[0].OK || tested[0].Status != 200 {
		t.Fatalf("test %+v, %v", tested, err)
	}
	w.steps(0)
	if s := w.state(0); len(r.taken()) != 3 || s.Stopped || s.Waiting != 0 {
		t.Errorf("%d tries, state %+v", len(r.taken()), s)
	}
}

// Redirects are not followed, private addresses not dialled, and the address never shown.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	inner := receive(t, nil)
	redirecting := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	w := newWorld(t, nil, redirecting.URL+"/T0000/very-secret")
	w.add(paused())
	w.steps(0)
	if len(inner.taken()) != 0 {
		t.Error("the redirect was followed")
	}
	if s := w.state(0); !strings.Contains(s.Error, "follows no redirects") {
		t.Errorf("state %+v", s)
	}

	denied := newWorld(t, func(o *Options) { o.Guard = guard.Rules{} }, inner.URL+"/T0000/very-secret")
	denied.add(paused())
	denied.steps(0)
	if s := denied.state(0); len(inner.taken()) != 0 || !strings.Contains(s.Error, "deny-loopback") {
		t.Errorf("%d posts, state %+v", len(inner.taken()), s)
	}

	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(400)
		_, _ = io.WriteString(w, "bad: "+r.URL.String()+"\x1b[31m")
	}))
	t.Cleanup(echo.Close)
	telling := newWorld(t, nil, echo.URL+"/T0000/very-secret?token=also-secret", "http://127.0.0.1:1/very-secret")
	telling.add(paused())
	telling.steps(0)
	telling.steps(1)
	all, err := telling.States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shown, _ := json.Marshal(all)
	for _, text := range []string{string(shown), telling.logs.String(), denied.logs.String(), w.logs.String(), fmt.Sprint(telling.queues[0].Destination)} {
		if strings.Contains(text, "secret") || strings.Contains(text, "\x1b") {
			t.Errorf("tells a secret: %s", text)
		}
	}
}

// A slow receiver holds up no other, and ends with its time. A huge answer is not read.
func TestSlowAndHuge(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(stuck) })
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, 1<<20)
		for range 1 << 20 {
			if _, err := w.Write(block); err != nil || r.Context().Err() != nil {
				return
			}
		}
	}))
	t.Cleanup(huge.Close)
	quick := receive(t, nil)
	events := make(results, 100)
	w := newWorld(t, func(o *Options) { o.Observer = events }, slow.URL, huge.URL, quick.URL)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Sender.Run(ctx)
	}()
	w.add(paused())
	w.Wake()
	for range 2 {
		if e := <-events; e == w.queues[0].Name+" delivered" || !strings.HasSuffix(e, " delivered") {
			t.Fatal(e)
		}
	}
	begun := time.Now()
	cancel()
	<-done
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("stopping took %s", d)
	}
	if s := w.state(0); s.Delivered != nil {
		t.Errorf("the slow one is %+v", s)
	}
}

// A notice that was delivered and not noted is delivered again, under the same id: as after a kill.
func TestAgainAfterKill(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	broken := &forgetful{}
	w := newWorld(t, func(o *Options) { broken.Outbox, o.Store = o.Store, broken }, r.URL)
	w.add(paused())
	broken.fails = true
	if _, err := w.step(t.Context(), w.queues[0]); err == nil {
		t.Fatal("the store works")
	}
	_, err := w.step(t.Context(), w.queues[0]) // this process knows
	if err == nil || len(r.taken()) != 1 {
		t.Fatalf("sent %d times, %v", len(r.taken()), err)
	}
	broken.fails = false
	next := w.beside(r)
	next.steps(0)
	w.pass(pay.NoticeClaimTime - time.Second)
	next.steps(0)
	if len(r.taken()) != 1 {
		t.Fatalf("sent %d times while the claim holds", len(r.taken()))
	}
	w.pass(time.Second)
	next.steps(0)
	if len(r.taken()) != 2 || r.heads[0].Get("webhook-id") != r.heads[1].Get("webhook-id") {
		t.Errorf("sent %d times", len(r.taken()))
	}
}

// results tells what became of tries.
type results chan string

func (r results) Delivered(destination, result string) { r <- destination + " " + result }
func (results) Waiting(string, uint64)                 {}

type forgetful struct {
	pay.Outbox
	fails bool
}

func (f *forgetful) SetDelivery(ctx context.Context, d pay.Delivery) error {
	if f.fails {
		return errors.New("no disk")
	}
	return f.Outbox.SetDelivery(ctx, d)
}

// A new destination gets what comes from now on; replaying gives it the rest.
func TestNewDestinationAndReplay(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	old := newWorld(t, nil, r.URL)
	old.add(paused())
	old.pass(time.Hour)
	old.add(pay.Notice{Kind: pay.NoticeResumed}, pay.Notice{Kind: pay.NoticeBudget50})
	second := receive(t, nil)
	wants, _ := ParseKinds(nil)
	w := newWorld(t, func(o *Options) { o.Store, o.Wants = old.store, wants }, second.URL)
	w.pass(time.Hour)
	w.steps(0)
	if n := len(second.taken()); n != 0 {
		t.Fatalf("%d old notices sent", n)
	}
	name := w.queues[0].Name
	n, err := w.Replay(t.Context(), name, Replay{Since: noon.Add(30 * time.Minute)})
	if err != nil || n != 2 {
		t.Fatalf("%d to send, %v", n, err)
	}
	w.steps(0)
	if got := second.taken(); len(got) != 1 || !strings.Contains(got[0], "resumed") {
		t.Errorf("sent %q", got)
	}
	if n, err := w.Replay(t.Context(), name, Replay{From: 1}); err != nil || n != 3 {
		t.Errorf("%d to send, %v", n, err)
	}
	w.steps(0)
	if n := len(second.taken()); n != 3 {
		t.Errorf("%d sent", n)
	}
	if n, err := w.Replay(t.Context(), name, Replay{Since: noon.Add(-time.Hour)}); err != nil || n != 3 {
		t.Errorf("%d to send, %v", n, err)
	}
	for _, unknown := range []string{"", "nowhere"} {
		if _, err := w.Replay(t.Context(), unknown, Replay{From: 1}); !errors.Is(err, ErrNoDestination) {
			t.Errorf("%q: %v", unknown, err)
		}
	}
}

func TestWebhookAddresses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]Format{
		"https://hooks.slack.com/services/T/B/x":                         FormatSlack,
		"https://discord.com/api/webhooks/1/x":                           FormatDiscord,
		"https://prod-1.westus.logic.azure.com/workflows/x?sig=y":        FormatTeams,
		"https://contoso.webhook.office.com/webhookb2/x":                 FormatTeams,
		"https://example.com/hook":                                       FormatJSON,
		"slack+https://mattermost.example.com/hooks/x":                   FormatSlack,
		"json+https://hooks.slack.com/x":                                 FormatJSON,
		"http://127.0.0.1:9/x":                                           FormatJSON,
		"https://discord.com.evil.example/x":                             FormatJSON,
		"https://evilhooks.slack.com.example/x":                          FormatJSON,
		"https://example.com/a+b":                                        FormatJSON,
		"https://notdiscord.com/x":                                       FormatJSON,
		"teams+https://default.environment.api.powerplatform.com/x?sig=": FormatTeams,
	} {
		d, err := ParseWebhook(raw)
		if err != nil || d.Format != want {
			t.Errorf("%s: %s, %v", raw, d.Format, err)
		}
		u, _ := url.Parse(raw)
		if u.Path != "" && len(u.Path) > 2 && strings.Contains(d.Name, u.Path) {
			t.Errorf("the name %s tells the path", d.Name)
		}
	}
	for _, raw := range []string{
		"", "hooks.slack.com/x-secret", "http://example.com/x-secret", "ftp://example.com/x-secret", "https:///x-secret", "irc+https://example.com/x-secret",
		"https://u:x-secret@example.com/", "https://example.com/#x-secret", "slack+http://example.com/x-secret", "https://exa mple.com/x-secret",
	} {
		if _, err := ParseWebhook(raw); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, text := range []string{"whsec_", "secret-secret", "whsec_c2hvcnQ=", "whsec_!!"} {
		if _, err := ParseSecrets([]string{text}); err == nil || strings.Contains(err.Error(), "secret-secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ParseKinds([]string{"budgets"}); err == nil {
		t.Error("an unknown kind is taken")
	}
}
