package forward

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// witness is an observer that remembers.
type witness struct {
	proxy.Observer
	mu      sync.Mutex
	results map[string]int
	open    int
	memory  int64
	disk    int64
	files   int
	most    [3]int64 // memory, disk and files at most
	inside  []string // URLs
	stages  []string // with their payment
	away    []pay.Decline
	unpaid  []pay.Decline
}

func (o *witness) Declined(d pay.Decline) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unpaid = append(o.unpaid, d)
}

func (o *witness) TurnedAway(d pay.Decline) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = append(o.away, d)
}

func (o *witness) Answered(result string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results[result]++
}

func (o *witness) Tunnels(change int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open += change
}

func (o *witness) Spooled(memory, disk int64, files int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.memory, o.disk, o.files = o.memory+memory, o.disk+disk, o.files+files
	o.most = [3]int64{max(o.most[0], o.memory), max(o.most[1], o.disk), max(o.most[2], int64(o.files))}
}

// Propagate names the stage and the payment that a request is sent under.
func (*witness) Propagate(ctx context.Context, header http.Header) {
	stage, _ := ctx.Value(stageKey{}).(string)
	header.Set("Traceparent", stage+" "+pay.PaymentOf(ctx))
}

func (o *witness) Inside(connect context.Context, r *http.Request) (*http.Request, func()) {
	if connect == nil {
		panic("no CONNECT")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inside = append(o.inside, r.URL.String())
	return r, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.inside = append(o.inside, "end")
	}
}

type stageKey struct{}

// Stage implements pay.Tracer.
func (o *witness) Stage(ctx context.Context, stage, paymentID string) (context.Context, func(error)) {
	return context.WithValue(ctx, stageKey{}, stage), func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.stages = append(o.stages, fmt.Sprint(stage, " ", paymentID, " ", err == nil))
	}
}

func (o *witness) saw(results map[string]int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Equal(o.results, results)
}

func witnessed(o *witness) func(*setup) {
	o.results, o.Observer = map[string]int{}, proxy.Unobserved()
	return func(s *setup) {
		s.forward.Observer, s.pay.Tracer = o, o
		s.forward.MaxReplay = 1000
	}
}

func TestObserverHearsResults(t *testing.T) {
	t.Parallel()
	o := &witness{}
	w, s := newWorld(t, witnessed(o)), proxytest.NewSeller(t)
	id := w.get(s.URL+"/data", "Traceparent", "the client's").Paid(t)
	w.get(s.URL + "/free")
	dear := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.Price = "5000000" })
	w.get(dear.URL+"/data").Declined(t, "per-payment", true)
	w.do(w.client(nil), proxytest.Request(t, "GET", s.URL+"/data", nil)) // 407
	gone := proxytest.NewSeller(t)
	gone.Close()
	w.get(gone.URL + "/data")
	broken := proxytest.NewSeller(t)
	broken.Paid = func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }
	w.get(broken.URL + "/data")
	want := map[string]int{
		proxy.ResultPaid: 1, proxy.ResultPassed: 1, proxy.ResultDeclined: 1, proxy.ResultRefused: 1, proxy.ResultFailed: 1, proxy.ResultUnanswered: 1,
	}
	proxytest.Eventually(t, "each result once", func() bool { return o.saw(want) })

	s.Mu.Lock()
	defer s.Mu.Unlock()
	if got := s.Unpaid[0].Header.Get("Traceparent"); got != "the client's" {
		t.Errorf("unpaid, the seller got the trace %q", got)
	}
	if got := s.Bought[0].Header.Get("Traceparent"); got != "send "+id {
		t.Errorf("paid, the seller got the trace %q", got)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	want1 := []string{"decide  true", "journal " + id + " true", "sign " + id + " true", "send " + id + " true"}
	if got := o.stages[:4]; strings.Join(got, "\n") != strings.Join(want1, "\n") {
		t.Errorf("stages %q, want %q", got, want1)
	}
	if last := o.stages[len(o.stages)-1]; !strings.HasPrefix(last, "send ") || !strings.HasSuffix(last, " false") {
		t.Errorf("the last stage is %q", last)
	}
}

// The observer hears of requests that purser itself turns away, with their key. A client that still has to
// name its key, and an upstream that is gone, are not among them.
func TestObserverHearsWhatIsTurnedAway(t *testing.T) {
	t.Parallel()
	o := &witness{}
	w := newWorld(t, witnessed(o))
	gone := proxytest.NewSeller(t)
	gone.Close()
	w.get(gone.URL + "/data")
	w.do(w.client(nil), proxytest.Request(t, "GET", "http://10.0.0.1/", nil)) // 407
	w.get("http://10.0.0.1:8080/data", proxy.HeaderDryRun, "1")
	if a := w.get("http://10.0.0.1:8080/data"); a.StatusCode != http.StatusForbidden {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.away) != 1 || o.away[0].Reason != string(guard.DenyPrivate) || o.away[0].Host != "10.0.0.1:8080" || o.away[0].KeyID != w.Key.ID || o.away[0].Detail == "" {
		t.Errorf("turned away: %+v", o.away)
	}
}

// The observer hears of no decline when a client asks for a price, whatever a payment would get.
func TestADryRunIsNoDecline(t *testing.T) {
	t.Parallel()
	o := &witness{}
	w := newWorld(t, witnessed(o), func(s *setup) {
		s.pay.DefaultPolicy = policy.Policy{MaxPayment: policy.CapOf(money.New(10_000))}
		s.pay.Failures.Quotes = 4
	})
	cheap, s := proxytest.NewSeller(t), proxytest.NewSeller(t, func(s *proxytest.Seller) { s.Price = "10001" })
	w.get(cheap.URL+"/x", proxy.HeaderDryRun, "1").Declined(t, proxy.DeclinedDryRun, true)
	w.get(s.URL+"/x", proxy.HeaderDryRun, "1").Declined(t, "per-payment", true)
	w.get(s.URL+"/x", proxy.HeaderDryRun, "1", proxy.HeaderMaxAmount, "many").Declined(t, proxy.DeclinedMaxInvalid, true)
	for range 3 { // above its bound purser answers by itself
		w.get(s.URL+"/x", proxy.HeaderDryRun, "1")
	}
	w.get(s.URL+"/x").Declined(t, "per-payment", true)
	if !o.saw(map[string]int{proxy.ResultDryRun: 6, proxy.ResultDeclined: 1}) {
		t.Errorf("results: %v", o.results)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.unpaid) != 1 || o.unpaid[0].Reason != "per-payment" {
		t.Errorf("declined: %+v", o.unpaid)
	}
}

func TestObserverHearsTunnels(t *testing.T) {
	t.Parallel()
	o := &witness{}
	s := newSecure(t, witnessed(o))
	a := s.do(s.secureAgent(false), proxytest.Request(t, "GET", s.shop("/data"), nil))
	a.Paid(t)
	o.mu.Lock()
	open, inside := o.open, strings.Join(o.inside, " ")
	o.mu.Unlock()
	if open != 1 || inside != s.shop("/data")+" end" && inside != s.shop("/data") {
		t.Errorf("%d tunnels, inside %s", open, inside)
	}
	if !o.saw(map[string]int{proxy.ResultTunnel: 1, proxy.ResultPaid: 1}) {
		t.Errorf("%v", o.results)
	}
	s.server.CloseClientConnections()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = s.forward.Close(ctx) // cuts what is left
	proxytest.Eventually(t, "the tunnel is gone", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.open == 0
	})
}

func TestObserverHearsTheSpool(t *testing.T) {
	t.Parallel()
	o := &witness{}
	w, s := newWorld(t, witnessed(o)), proxytest.NewSeller(t)
	w.do(w.agent(), proxytest.Request(t, "POST", s.URL+"/upload", io.MultiReader(bytes.NewReader(make([]byte, 50_000))))).Paid(t)
	proxytest.Eventually(t, "everything is given back", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.memory == 0 && o.disk == 0 && o.files == 0
	})
	if o.most != [3]int64{1000, 49_000, 1} {
		t.Errorf("at most %v", o.most)
	}
}
