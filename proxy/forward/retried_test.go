package forward

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// A request that says itself that it is a repeat is never a purchase beside the one that it repeats, nor shortly after
// it. A first try is one.
func TestRepeatsThatSayTheyAreRepeats(t *testing.T) {
	t.Parallel()
	for header, values := range map[string][3]string{ // the first try, a repeat, and another one
		"X-Stainless-Retry-Count": {"0", "1", "2"},
		"Amz-Sdk-Request":         {"attempt=1; max=3", "ttl=20261128T150000Z; attempt=2; max=3", "attempt=3; max=3"},
		"X-Goog-Api-Client":       {"gl-go/1 gccl-attempt-count/1", "gl-go/1 gccl-attempt-count/2", "gccl-attempt-count/3 gl-go/1"},
		"Retry-Attempt":           {"", "1", "2"},
		"X-Retry-Attempt":         {"0", "1", "2"},
		"X-Klaviyo-Retry-Attempt": {"1/50", "2/50", "3/50"},
		"X-Sdk-Request":           {"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"},
		"Total-Attempts":          {"", "2", "3"},
		"X-Request-Attempt":       {"1", "2", "3"},
		"X-Envoy-Attempt-Count":   {"1", "2", "3"},

		"Grpc-Previous-Rpc-Attempts": {"", "1", "2"},
	} {
		for _, again := range []string{"", "new"} {
			t.Run(header+again, func(t *testing.T) {
				t.Parallel()
				w, s := newWorld(t), proxytest.NewSeller(t)
				s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
				ask := func(value string) proxytest.Answer {
					r := proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("{}"))
					if r.Header.Set(header, value); again != "" {
						r.Header.Set(proxy.HeaderAgain, again)
					}
					return w.do(w.agent(), r)
				}
				first := ask(values[0]).Paid(t)
				for _, value := range values[1:] {
					if got := ask(value); got.Text != "again" || got.Paid(t) != first {
						t.Errorf("%s: %q", value, got.Text)
					}
				}
				if next := ask(values[0]).Paid(t); next == first {
					t.Error("a first try is no purchase")
				}
			})
		}
	}
}

// Headers that only look like counts of tries are none.
func TestLimitsOfRetriesAreNoCounts(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	first := w.get(s.URL + "/x").Paid(t)
	for _, name := range []string{"X-Max-Retry-Attempts", "X-Max-Retry-Count", "Max-Attempt-Count", "X-Retry-Limit", "X-Attempts", "Retry-After", "X-NoRetry-Count"} {
		if next := w.get(s.URL+"/x", name, "3").Paid(t); next == first {
			t.Errorf("%s makes a repeat", name)
		}
	}
}

// EventSource asks again by itself when a stream has ended. That is no purchase, unless its client says so.
func TestEventSourceGoesOn(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
	first := w.get(s.URL + "/feed").Paid(t)
	for range 3 {
		if got := w.get(s.URL+"/feed", "Last-Event-ID", "7"); got.Text != "again" || got.Paid(t) != first {
			t.Errorf("%q", got.Text)
		}
	}
	if w.get(s.URL+"/feed", "Last-Event-ID", "7", proxy.HeaderAgain, "new").Paid(t) == first {
		t.Error("a purchase of its own is none")
	}
}

// A repeat that comes while the first try is under way waits for it.
func TestRepeatBesideItsFirstTry(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	arrived, goOn := s.Hold("paid")
	defer goOn()
	s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
	ask := func(count string) <-chan proxytest.Answer {
		got := make(chan proxytest.Answer, 1)
		go func() { got <- w.get(s.URL+"/x", "X-Stainless-Retry-Count", count) }()
		return got
	}
	first := ask("0")
	<-arrived
	second := ask("1")
	proxytest.Eventually(t, "the repeat has asked for its price", func() bool {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return len(s.Unpaid) == 2
	})
	goOn()
	if a, b := <-first, <-second; a.Text != "paid" || b.Text != "again" || a.Paid(t) != b.Paid(t) {
		t.Errorf("%q, %q", a.Text, b.Text)
	}
	if n := len(w.Payments()); n != 1 {
		t.Errorf("%d payments", n)
	}
}
